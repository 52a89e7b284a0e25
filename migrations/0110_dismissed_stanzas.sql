-- migrate:up
-- Quarantined stanzas that somebody has looked at.

ALTER TABLE upstream.quarantine ADD COLUMN dismissed_at timestamptz;
COMMENT ON COLUMN upstream.quarantine.dismissed_at IS 'When somebody dismissed it, by the database''s clock: lists leave it out until it is seen again.';

-- Who may release conflicts may dismiss stanzas.
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT DISTINCT CASE WHEN held.grantee = 0 THEN 'PUBLIC' ELSE held.grantee::regrole::text END AS grantee
        FROM pg_catalog.pg_attribute AS a
        CROSS JOIN LATERAL pg_catalog.aclexplode(a.attacl) AS held
        WHERE a.attrelid = 'upstream.conflicts'::regclass AND a.attname = 'released_at' AND held.privilege_type = 'UPDATE'
    LOOP
        EXECUTE format('GRANT UPDATE (dismissed_at) ON upstream.quarantine TO %s', known.grantee);
    END LOOP;
END
$$;

-- migrate:down
ALTER TABLE upstream.quarantine DROP COLUMN dismissed_at;
