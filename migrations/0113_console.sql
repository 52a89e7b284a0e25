-- migrate:up
-- The console: stanzas that nobody dismissed since they were last seen, dead letters that are queued again at a pace, and
-- deliveries and handlers that are given up.

CREATE INDEX quarantine_open_idx ON upstream.quarantine (id)
    WHERE dismissed_at IS NULL OR last_seen_at > dismissed_at;

ALTER TABLE upstream.jobs ADD COLUMN rate double precision;
COMMENT ON COLUMN upstream.jobs.rate IS 'How many deliveries become due a second; null: all at once.';
ALTER TABLE upstream.jobs ADD COLUMN due_to timestamptz;
COMMENT ON COLUMN upstream.jobs.due_to IS 'When the last delivery that it queued is due, with a rate.';

-- Who starts jobs may give deliveries up, which become dead letters, and remove handlers that no worker runs.
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT DISTINCT held.grantee::regrole::text AS grantee
        FROM pg_catalog.pg_class AS c CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS held
        WHERE c.oid = 'upstream.jobs'::regclass AND held.privilege_type = 'INSERT' AND held.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format(
            'GRANT DELETE ON upstream.deliveries, upstream.handlers, upstream.subscriptions, upstream.delivery_blocks TO %s',
            known.grantee);
        EXECUTE format('GRANT INSERT, UPDATE ON upstream.dead_letters TO %s', known.grantee);
    END LOOP;
END
$$;

-- migrate:down
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT DISTINCT held.grantee::regrole::text AS grantee
        FROM pg_catalog.pg_class AS c CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS held
        WHERE c.oid = 'upstream.jobs'::regclass AND held.privilege_type = 'INSERT' AND held.grantee NOT IN (0, c.relowner)
            -- A worker's role had them before.
            AND NOT pg_catalog.has_table_privilege(held.grantee, 'upstream.messages', 'INSERT')
    LOOP
        EXECUTE format(
            'REVOKE DELETE ON upstream.deliveries, upstream.handlers, upstream.subscriptions, upstream.delivery_blocks FROM %s',
            known.grantee);
        EXECUTE format('REVOKE INSERT, UPDATE ON upstream.dead_letters FROM %s', known.grantee);
    END LOOP;
END
$$;
ALTER TABLE upstream.jobs DROP COLUMN due_to, DROP COLUMN rate;
DROP INDEX upstream.quarantine_open_idx;
