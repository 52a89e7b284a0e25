-- migrate:up
-- As in 0012, and no handler's heartbeat waits for a lock that somebody holds on another's row: what is locked is left to the next one.
CREATE OR REPLACE FUNCTION upstream.keep_handlers(process bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[] := ARRAY(SELECT handler FROM upstream.handler_workers WHERE token = process);
    kept text[];
BEGIN
    PERFORM upstream.unpack_expired();
    WITH own AS (
        UPDATE upstream.handler_workers
        SET heartbeat_at = now(),
            alive_since = CASE WHEN heartbeat_at > now() - interval '2 minutes' THEN alive_since ELSE now() END
        WHERE token = process AND handler = ANY (ARRAY(
            SELECT handler FROM upstream.handler_workers
            WHERE token = process AND heartbeat_at < now() - interval '30 seconds'
            FOR NO KEY UPDATE SKIP LOCKED
        ))
        RETURNING handler
    )
    SELECT array_agg(handler) INTO kept FROM own;
    -- The order in which derive_subscriptions locks them.
    kept := ARRAY(
        SELECT name FROM upstream.handlers WHERE name = ANY (kept) ORDER BY name FOR NO KEY UPDATE SKIP LOCKED
    );
    IF kept <> '{}' THEN
        PERFORM upstream.derive_subscriptions(kept);
    END IF;
    RETURN cardinality(names);
END
$$;

-- migrate:down
CREATE OR REPLACE FUNCTION upstream.keep_handlers(process bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[] := ARRAY(SELECT handler FROM upstream.handler_workers WHERE token = process);
BEGIN
    PERFORM upstream.unpack_expired();
    UPDATE upstream.handler_workers
    SET heartbeat_at = now(),
        alive_since = CASE WHEN heartbeat_at > now() - interval '2 minutes' THEN alive_since ELSE now() END
    WHERE token = process AND heartbeat_at < now() - interval '30 seconds';
    IF FOUND THEN
        PERFORM upstream.derive_subscriptions(names);
    END IF;
    RETURN cardinality(names);
END
$$;
