-- migrate:up
-- A conflict that an operator releases is handed to the handlers as a message with a key of its own: under the key of the
-- message it conflicts with, a handler that has seen that one would take it for a repetition.
CREATE FUNCTION upstream.release_key(message_key uuid, fingerprint uuid) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.encode(
        pg_catalog.substring(
            pg_catalog.sha256(pg_catalog.uuid_send(message_key) OPERATOR(pg_catalog.||) pg_catalog.uuid_send(fingerprint)),
            1, 16
        ),
        'hex'
    )::pg_catalog.uuid
$$;
COMMENT ON FUNCTION upstream.release_key(uuid, uuid) IS 'The key under which handlers see a released conflict: the first 16 bytes of SHA-256(message_key, fingerprint).';

ALTER TABLE upstream.conflicts ADD COLUMN released_at timestamptz, ADD COLUMN released_by text;
COMMENT ON COLUMN upstream.conflicts.released_at IS 'When it was handed to the handlers; null where it was not.';
COMMENT ON COLUMN upstream.conflicts.released_by IS 'The role that handed it to the handlers.';
CREATE INDEX conflicts_release_key_idx ON upstream.conflicts (upstream.release_key(message_key, fingerprint))
    WHERE released_at IS NOT NULL;

-- What a delivery is about. The row stays in conflicts, so that messages keeps one row for each id; LIMIT 1 spares the
-- look-up there for all deliveries of messages. Without SET, so that it is inlined.
CREATE FUNCTION upstream.message_of(key uuid, arrival timestamptz) RETURNS SETOF upstream.messages
LANGUAGE sql STABLE ROWS 1 AS $$
    (SELECT
        message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from, received_at
    FROM upstream.messages WHERE messages.received_at = arrival AND messages.message_key = key)
    UNION ALL
    (SELECT
        upstream.release_key(message_key, fingerprint), sender_id, message_id, registration_token, device_key, category,
        data, data_raw, extra, message_type, stanza_from, received_at
    FROM upstream.conflicts
    WHERE upstream.release_key(message_key, fingerprint) = key AND released_at IS NOT NULL)
    LIMIT 1
$$;
COMMENT ON FUNCTION upstream.message_of(uuid, timestamptz) IS 'The message of a delivery: a row of messages, or a released conflict as one.';

-- migrate:down
DROP FUNCTION upstream.message_of(uuid, timestamptz);
DROP INDEX upstream.conflicts_release_key_idx;
ALTER TABLE upstream.conflicts DROP COLUMN released_at, DROP COLUMN released_by;
DROP FUNCTION upstream.release_key(uuid, uuid);
