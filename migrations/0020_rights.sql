-- migrate:up
-- What 0014 to 0018 brought, for every role that does the like already, whatever its name and whenever deploy/roles.sql was
-- run: it needs no second run after an upgrade. From here on a migration grants what it brings itself; a test compares that
-- with roles.sql. Reading is granted for tables to come, too (ALTER DEFAULT PRIVILEGES), so nothing of it is missing.
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        WITH held (object, privilege, grantee) AS (
            SELECT c.relname, a.privilege_type, a.grantee
            FROM pg_catalog.pg_class AS c, pg_catalog.aclexplode(c.relacl) AS a
            WHERE c.relnamespace = 'upstream'::regnamespace AND a.grantee <> c.relowner
            UNION ALL
            SELECT c.relname || '.' || t.attname, a.privilege_type, a.grantee
            FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_attribute AS t ON t.attrelid = c.oid,
                pg_catalog.aclexplode(t.attacl) AS a
            WHERE c.relnamespace = 'upstream'::regnamespace AND a.grantee <> c.relowner
            UNION ALL
            SELECT p.proname, a.privilege_type, a.grantee
            FROM pg_catalog.pg_proc AS p, pg_catalog.aclexplode(p.proacl) AS a
            WHERE p.pronamespace = 'upstream'::regnamespace AND a.grantee <> p.proowner
        )
        SELECT DISTINCT
            wanted.rights, CASE WHEN held.grantee = 0 THEN 'PUBLIC' ELSE held.grantee::regrole::text END AS grantee
        FROM (VALUES
            -- Who dispatches.
            ('delivery_blocks', 'INSERT', 'SELECT, INSERT ON upstream.attempt_batches'),
            ('delivery_blocks', 'INSERT', 'SELECT ON upstream.attempts'),
            ('handler_workers', 'INSERT', 'SELECT, INSERT, UPDATE, DELETE ON upstream.workers'),
            -- Who makes days, and deletes what has expired.
            ('ensure_partitions', 'EXECUTE', 'EXECUTE ON FUNCTION upstream.ensure_attempts(date, date)'),
            ('purge_dead_letters', 'EXECUTE', 'EXECUTE ON FUNCTION upstream.purge_attempts(), upstream.purge_audit(integer)'),
            -- Who does what the audit trail records.
            ('handlers', 'UPDATE', 'EXECUTE ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text)'),
            ('handlers.paused', 'UPDATE', 'EXECUTE ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text)'),
            ('dead_letters', 'DELETE', 'EXECUTE ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text)'),
            ('conflicts', 'UPDATE', 'EXECUTE ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text)'),
            ('conflicts.released_at', 'UPDATE', 'EXECUTE ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text)'),
            ('replays', 'UPDATE', 'EXECUTE ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text)'),
            -- Consoles: no other role may change this one column.
            ('deliveries.next_attempt_at', 'UPDATE', 'INSERT, UPDATE, DELETE ON upstream.jobs, upstream.idempotency_keys'),
            ('deliveries.next_attempt_at', 'UPDATE', 'INSERT, DELETE ON upstream.job_items')
        ) AS wanted (object, privilege, rights) JOIN held USING (object, privilege)
    LOOP
        EXECUTE format('GRANT %s TO %s', known.rights, known.grantee);
    END LOOP;
END
$$;

-- migrate:down
-- Rights stay: they are those that roles.sql gives.
