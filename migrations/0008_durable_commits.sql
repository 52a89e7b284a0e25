-- migrate:up
-- What is weaker than synchronous_commit = on (off, local, remote_write) is raised to it for what an ack relies on.
CREATE OR REPLACE FUNCTION upstream.store_messages(
    keys uuid[], fingerprints uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    holder text, fence bigint, lease_length bigint, offered text[], locals text[],
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    announced bigint;
BEGIN
    -- An ack promises that neither a crash nor a failover loses it, so the commit waits for the disk and for the standbys
    -- that the server waits for, whatever its default, or the role's, is. remote_apply promises more and is kept.
    PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
    WITH fresh AS (
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT * FROM unnest(keys, fingerprints, times)
        ON CONFLICT DO NOTHING
        RETURNING message_key
    ), body AS (
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT key, received_at, sender, id, token, device, category, data::json, raw, extra, type, stanza_from
        FROM unnest(keys, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms)
            AS input (key, received_at, sender, id, token, device, category, data, raw, extra, type, stanza_from)
        WHERE (key IN (SELECT message_key FROM fresh)) IS TRUE
    ), queue AS (
        INSERT INTO upstream.deliveries (
            handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
        )
        SELECT
            s.handler, input.key, input.received_at, now(), CASE WHEN s.by_device THEN input.device END,
            CASE WHEN s.is_offered THEN holder END, CASE WHEN s.is_offered THEN fence ELSE 0 END,
            CASE WHEN s.is_offered THEN now() + lease_length * interval '1 microsecond' END
        FROM (SELECT *, handler = ANY (offered) AS is_offered FROM upstream.subscriptions) AS s
        JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
            ON s.category = input.category OR s.category = '*'
        WHERE (input.key IN (SELECT message_key FROM fresh)) IS TRUE
        ON CONFLICT DO NOTHING
        RETURNING handler <> ALL (locals) AS is_elsewhere
    )
    SELECT
        (SELECT count(*) FROM fresh),
        (SELECT count(pg_notify('upstream_deliveries', ''))
        FROM (SELECT FROM queue WHERE is_elsewhere LIMIT 1) AS other)
    INTO stored, announced;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;

CREATE OR REPLACE FUNCTION upstream.store_conflicts(
    keys uuid[], fingerprints uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- As in upstream.store_messages. A known row is locked even where nothing is counted, which is a write: the commit waits.
    PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
    WITH input AS (
        SELECT *,
            count(*) OVER copies AS seen,
            max(at) OVER copies AS last_at,
            row_number() OVER (copies ORDER BY at) AS place
        FROM unnest(
            keys, fingerprints, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms
        ) AS input (key, print, at, sender, id, token, device, name, data, raw, extra, type, stanza_from)
        WINDOW copies AS (PARTITION BY key, print)
    )
    INSERT INTO upstream.conflicts AS known (
        message_key, fingerprint, received_at, sender_id, message_id, registration_token, device_key, category, data,
        data_raw, extra, message_type, stanza_from, times_seen, last_seen_at
    )
    SELECT key, print, at, sender, id, token, device, name, data::json, raw, extra, type, stanza_from, seen, last_at
    FROM input WHERE place = 1
    ORDER BY key, print
    ON CONFLICT (message_key, fingerprint) DO UPDATE
        SET times_seen = known.times_seen + excluded.times_seen,
            last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at)
        WHERE known.last_seen_at <> excluded.last_seen_at;
    GET DIAGNOSTICS stored = ROW_COUNT;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;

-- A copy of a known message is acked on the strength of a row that another transaction wrote. That row may be visible and yet
-- not be on the standby: its commit's wait was broken off, or the server has restarted since. A transaction that only
-- reads waits for nothing; one that writes a record after what it read is confirmed after it.
CREATE FUNCTION upstream.known_messages(keys uuid[])
RETURNS TABLE (message_key uuid, fingerprint uuid, received_at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
    RETURN QUERY
        SELECT m.message_key, m.fingerprint, m.received_at
        FROM upstream.message_ids AS m WHERE m.message_key = ANY (keys);
    PERFORM pg_logical_emit_message(true, 'upstream', '');
END
$$;
COMMENT ON FUNCTION upstream.known_messages(uuid[]) IS 'The ledger''s rows for some keys, in a transaction that commits only after they are as durable as the server makes them.';

-- migrate:down
DROP FUNCTION upstream.known_messages(uuid[]);
CREATE OR REPLACE FUNCTION upstream.store_messages(
    keys uuid[], fingerprints uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    holder text, fence bigint, lease_length bigint, offered text[], locals text[],
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    announced bigint;
BEGIN
    -- An ack promises that a crash loses nothing, so the commit waits for the disk whatever the server's default is.
    PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';
    WITH fresh AS (
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT * FROM unnest(keys, fingerprints, times)
        ON CONFLICT DO NOTHING
        RETURNING message_key
    ), body AS (
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT key, received_at, sender, id, token, device, category, data::json, raw, extra, type, stanza_from
        FROM unnest(keys, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms)
            AS input (key, received_at, sender, id, token, device, category, data, raw, extra, type, stanza_from)
        WHERE (key IN (SELECT message_key FROM fresh)) IS TRUE
    ), queue AS (
        INSERT INTO upstream.deliveries (
            handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
        )
        SELECT
            s.handler, input.key, input.received_at, now(), CASE WHEN s.by_device THEN input.device END,
            CASE WHEN s.is_offered THEN holder END, CASE WHEN s.is_offered THEN fence ELSE 0 END,
            CASE WHEN s.is_offered THEN now() + lease_length * interval '1 microsecond' END
        FROM (SELECT *, handler = ANY (offered) AS is_offered FROM upstream.subscriptions) AS s
        JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
            ON s.category = input.category OR s.category = '*'
        WHERE (input.key IN (SELECT message_key FROM fresh)) IS TRUE
        ON CONFLICT DO NOTHING
        RETURNING handler <> ALL (locals) AS is_elsewhere
    )
    SELECT
        (SELECT count(*) FROM fresh),
        (SELECT count(pg_notify('upstream_deliveries', ''))
        FROM (SELECT FROM queue WHERE is_elsewhere LIMIT 1) AS other)
    INTO stored, announced;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;

CREATE OR REPLACE FUNCTION upstream.store_conflicts(
    keys uuid[], fingerprints uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';
    WITH input AS (
        SELECT *,
            count(*) OVER copies AS seen,
            max(at) OVER copies AS last_at,
            row_number() OVER (copies ORDER BY at) AS place
        FROM unnest(
            keys, fingerprints, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms
        ) AS input (key, print, at, sender, id, token, device, name, data, raw, extra, type, stanza_from)
        WINDOW copies AS (PARTITION BY key, print)
    )
    INSERT INTO upstream.conflicts AS known (
        message_key, fingerprint, received_at, sender_id, message_id, registration_token, device_key, category, data,
        data_raw, extra, message_type, stanza_from, times_seen, last_seen_at
    )
    SELECT key, print, at, sender, id, token, device, name, data::json, raw, extra, type, stanza_from, seen, last_at
    FROM input WHERE place = 1
    ORDER BY key, print
    ON CONFLICT (message_key, fingerprint) DO UPDATE
        SET times_seen = known.times_seen + excluded.times_seen,
            last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at)
        WHERE known.last_seen_at <> excluded.last_seen_at;
    GET DIAGNOSTICS stored = ROW_COUNT;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;
