-- migrate:up
-- What the migration after the last one may look like: the tests of upgrades apply it, and CONTRIBUTING.md points here.

-- From here to the commit, which comes soon, inserts wait. Whoever reads for long makes this fail; it does not stop everything.
SET LOCAL lock_timeout = '1500ms';
ALTER TABLE upstream.messages ALTER COLUMN category SET STORAGE MAIN;
ALTER TABLE upstream.deliveries ADD COLUMN region text NOT NULL DEFAULT '';
COMMENT ON COLUMN upstream.deliveries.region IS 'Where it is handled.';

CREATE TABLE upstream.regions (
    region text NOT NULL,
    CONSTRAINT regions_pkey PRIMARY KEY (region)
);
COMMENT ON TABLE upstream.regions IS 'Where deliveries are handled.';
COMMENT ON COLUMN upstream.regions.region IS 'A name.';

-- What this brings is granted to every role that does the like already, whatever its name and whenever deploy/roles.sql was run.
-- Reading is granted for tables to come, too (ALTER DEFAULT PRIVILEGES).
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT DISTINCT
            wanted.rights, CASE WHEN held.grantee = 0 THEN 'PUBLIC' ELSE held.grantee::regrole::text END AS grantee
        FROM (VALUES
            -- Who dispatches.
            ('delivery_blocks', 'INSERT', 'SELECT, INSERT ON upstream.regions')
        ) AS wanted (object, privilege, rights)
        JOIN pg_catalog.pg_class AS c ON c.relnamespace = 'upstream'::regnamespace AND c.relname = wanted.object
        CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS held
        WHERE held.privilege_type = wanted.privilege AND held.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s TO %s', known.rights, known.grantee);
    END LOOP;
END
$$;

-- migrate:down
DROP TABLE upstream.regions;
ALTER TABLE upstream.deliveries DROP COLUMN region;
ALTER TABLE upstream.messages ALTER COLUMN category SET STORAGE EXTENDED;
