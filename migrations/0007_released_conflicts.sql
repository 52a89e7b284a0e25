-- migrate:up
-- The time is asked again outside: a copy that comes meanwhile makes the row young. A released conflict is what its
-- deliveries and dead letters are loaded from, and stays for as long as there are any.
CREATE OR REPLACE FUNCTION upstream.purge_conflicts(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF before IS NULL OR before > now() - interval '1 day' THEN
        RAISE EXCEPTION 'upstream.purge_conflicts deletes nothing younger than a day' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.conflicts
    WHERE last_seen_at < before AND ctid IN (
        SELECT ctid FROM upstream.conflicts AS c
        WHERE received_at < before AND last_seen_at < before AND (
            released_at IS NULL
            OR NOT EXISTS (
                SELECT FROM upstream.deliveries WHERE message_key = upstream.release_key(c.message_key, c.fingerprint))
            AND NOT EXISTS (
                SELECT FROM upstream.dead_letters WHERE message_key = upstream.release_key(c.message_key, c.fingerprint))
        )
        LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
COMMENT ON FUNCTION upstream.purge_conflicts(timestamptz, integer) IS 'Deletes conflicts that were last seen before a time, a day ago at the latest, except released ones that deliveries or dead letters still need: most of them at once. Null where another worker is at it.';

-- migrate:down
-- The time is asked again outside: a copy that comes meanwhile makes the row young.
CREATE OR REPLACE FUNCTION upstream.purge_conflicts(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF before IS NULL OR before > now() - interval '1 day' THEN
        RAISE EXCEPTION 'upstream.purge_conflicts deletes nothing younger than a day' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.conflicts
    WHERE last_seen_at < before AND ctid IN (
        SELECT ctid FROM upstream.conflicts WHERE received_at < before AND last_seen_at < before LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
COMMENT ON FUNCTION upstream.purge_conflicts(timestamptz, integer) IS 'Deletes conflicts that were last seen before a time, a day ago at the latest: most of them at once. Null where another worker is at it.';
