-- migrate:up
-- What a handler asked for itself (Retry-After), which every worker keeps to and an operator can end. Beside the pause, which is an
-- operator's.
ALTER TABLE upstream.handlers
    ADD COLUMN held_until timestamptz,
    ADD COLUMN held_reason text,
    ADD COLUMN resumed_at timestamptz;
COMMENT ON COLUMN upstream.handlers.held_until IS 'Until when the handler asked for a pause (Retry-After): no attempt begins before, in any worker; null, or past, where it did not.';
COMMENT ON COLUMN upstream.handlers.held_reason IS 'What it answered then.';
COMMENT ON COLUMN upstream.handlers.resumed_at IS 'When an operator resumed the handler last, or had its deliveries retried at once: workers then close its circuit breaker.';

-- Who may resume a handler may end a hold. Workers may update the whole table.
DO $$
DECLARE
    known text;
BEGIN
    FOR known IN
        SELECT DISTINCT CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END
        FROM pg_catalog.pg_attribute CROSS JOIN LATERAL aclexplode(attacl) AS acl
        WHERE attrelid = 'upstream.handlers'::regclass AND attname = 'paused' AND acl.privilege_type = 'UPDATE'
    LOOP
        EXECUTE format('GRANT UPDATE (held_until, held_reason, resumed_at) ON upstream.handlers TO %s', known);
    END LOOP;
END
$$;

-- migrate:down
ALTER TABLE upstream.handlers
    DROP COLUMN held_until,
    DROP COLUMN held_reason,
    DROP COLUMN resumed_at;
