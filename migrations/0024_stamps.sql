-- migrate:up
-- A message may be stored with a time up to an hour before its commit: what was parsed shortly before midnight, and what waited in an
-- outage. Workers stamp by the database's clock, and older times are not stored. So what is kept by that time is kept for an hour longer,
-- and nothing that was acked is deleted before the policy's time has passed since its commit.
CREATE OR REPLACE FUNCTION upstream.retention_end(what text) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    policy upstream.retention_policy;
BEGIN
    SELECT * INTO policy FROM upstream.retention_policy FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no retention policy yet, so nothing is deleted'
            USING ERRCODE = '55000', HINT = 'A worker sets it at its start; or upstream-worker partitions policy --apply.';
    END IF;
    RETURN now() - CASE what
        WHEN 'messages' THEN policy.messages + interval '1 hour'
        WHEN 'dedupe_window' THEN policy.dedupe_window + interval '1 hour'
        WHEN 'dead_letters' THEN policy.dead_letters
        WHEN 'attempts' THEN policy.attempts
    END;
END
$$;
COMMENT ON FUNCTION upstream.retention_end(text) IS 'What is older than this is too old, by the policy and by this server''s clock; messages and ids an hour later, as they may be stored with a time that is an hour old. For the functions that delete.';
COMMENT ON COLUMN upstream.messages.received_at IS 'When the worker had parsed the stanza, by the database''s clock; at the earliest an hour before it was stored.';

-- migrate:down
COMMENT ON COLUMN upstream.messages.received_at IS 'When the worker had parsed the stanza.';
CREATE OR REPLACE FUNCTION upstream.retention_end(what text) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    policy upstream.retention_policy;
BEGIN
    SELECT * INTO policy FROM upstream.retention_policy FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no retention policy yet, so nothing is deleted'
            USING ERRCODE = '55000', HINT = 'A worker sets it at its start; or upstream-worker partitions policy --apply.';
    END IF;
    RETURN now() - CASE what
        WHEN 'messages' THEN policy.messages
        WHEN 'dedupe_window' THEN policy.dedupe_window
        WHEN 'dead_letters' THEN policy.dead_letters
        WHEN 'attempts' THEN policy.attempts
    END;
END
$$;
COMMENT ON FUNCTION upstream.retention_end(text) IS 'What is older than this is too old, by the policy and by this server''s clock. For the functions that delete.';
