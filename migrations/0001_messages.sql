-- migrate:up
CREATE TABLE upstream.message_ids (
    message_key uuid NOT NULL,
    fingerprint uuid NOT NULL,
    received_at timestamptz NOT NULL,
    CONSTRAINT message_ids_pkey PRIMARY KEY (message_key)
);
-- Erasing what is past the dedupe window scans by time; arrival order is nearly time order, so block ranges serve.
CREATE INDEX message_ids_received_at_idx ON upstream.message_ids USING brin (received_at);

COMMENT ON TABLE upstream.message_ids IS 'The dedupe ledger: one row for each message ever accepted, kept for retention.dedupe_window. Inserting here decides what is new.';
COMMENT ON COLUMN upstream.message_ids.message_key IS 'First 16 bytes of SHA-256(sender_id, 0x00, message_id); with id_scope device, of SHA-256(sender_id, 0x00, registration token, 0x00, message_id).';
COMMENT ON COLUMN upstream.message_ids.fingerprint IS 'First 16 bytes of SHA-256 over registration token, category, message_type and verbatim data, each preceded by its length in 8 bytes.';
COMMENT ON COLUMN upstream.message_ids.received_at IS 'When the first copy was parsed; the same as messages.received_at.';

CREATE TABLE upstream.messages (
    message_key uuid NOT NULL,
    sender_id text NOT NULL,
    message_id text NOT NULL,
    registration_token text NOT NULL,
    device_key uuid NOT NULL,
    category text NOT NULL,
    data json,
    data_raw text,
    extra text,
    message_type text,
    stanza_from text,
    received_at timestamptz NOT NULL,
    -- Time first: inserts go to the right edge, and dispatch and paging read in this order.
    CONSTRAINT messages_pkey PRIMARY KEY (received_at, message_key)
) PARTITION BY RANGE (received_at);
-- An id may have 4,096 bytes, which a btree refuses.
CREATE INDEX messages_message_id_idx ON upstream.messages USING hash (message_id);
CREATE INDEX messages_category_received_at_idx ON upstream.messages (category, received_at);
CREATE INDEX messages_device_key_received_at_idx ON upstream.messages (device_key, received_at);

COMMENT ON TABLE upstream.messages IS 'Every accepted message once, append-only; partitioned by UTC day of received_at, retention drops whole days.';
COMMENT ON COLUMN upstream.messages.message_key IS 'The key in message_ids.';
COMMENT ON COLUMN upstream.messages.sender_id IS 'The configured sender whose connection delivered it.';
COMMENT ON COLUMN upstream.messages.message_id IS 'The id the device gave it; unique per sender_id (or per sender and device with id_scope device).';
COMMENT ON COLUMN upstream.messages.registration_token IS 'The JSON from: the device''s registration token. A credential: show device_key instead.';
COMMENT ON COLUMN upstream.messages.device_key IS 'First 16 bytes of SHA-256(registration_token): names a device without giving its token away.';
COMMENT ON COLUMN upstream.messages.category IS 'The app''s package name.';
COMMENT ON COLUMN upstream.messages.data IS 'The verbatim text of data; always castable to jsonb. Null where the message had none, or where data_raw holds it.';
COMMENT ON COLUMN upstream.messages.data_raw IS 'The verbatim text of data where jsonb would refuse it; data is then null.';
COMMENT ON COLUMN upstream.messages.extra IS 'A JSON object of the other members, in their order and verbatim; null where there are none.';
COMMENT ON COLUMN upstream.messages.message_type IS 'Null, or receipt.';
COMMENT ON COLUMN upstream.messages.stanza_from IS 'The stanza''s from attribute; null where absent.';
COMMENT ON COLUMN upstream.messages.received_at IS 'When the worker had parsed the stanza.';

CREATE TABLE upstream.conflicts (
    message_key uuid NOT NULL,
    sender_id text NOT NULL,
    message_id text NOT NULL,
    registration_token text NOT NULL,
    device_key uuid NOT NULL,
    category text NOT NULL,
    data json,
    data_raw text,
    extra text,
    message_type text,
    stanza_from text,
    received_at timestamptz NOT NULL,
    fingerprint uuid NOT NULL,
    times_seen bigint NOT NULL,
    last_seen_at timestamptz NOT NULL,
    CONSTRAINT conflicts_pkey PRIMARY KEY (message_key, fingerprint)
);
CREATE INDEX conflicts_received_at_idx ON upstream.conflicts (received_at);
CREATE INDEX conflicts_device_key_idx ON upstream.conflicts (device_key);

COMMENT ON TABLE upstream.conflicts IS 'Copies of a known message_key with other content: one row per distinct content.';
COMMENT ON COLUMN upstream.conflicts.message_key IS 'The key in message_ids.';
COMMENT ON COLUMN upstream.conflicts.sender_id IS 'The configured sender whose connection delivered it.';
COMMENT ON COLUMN upstream.conflicts.message_id IS 'The id the device gave it.';
COMMENT ON COLUMN upstream.conflicts.registration_token IS 'The JSON from: the device''s registration token. A credential: show device_key instead.';
COMMENT ON COLUMN upstream.conflicts.device_key IS 'First 16 bytes of SHA-256(registration_token).';
COMMENT ON COLUMN upstream.conflicts.category IS 'The app''s package name.';
COMMENT ON COLUMN upstream.conflicts.data IS 'The verbatim text of data; always castable to jsonb.';
COMMENT ON COLUMN upstream.conflicts.data_raw IS 'The verbatim text of data where jsonb would refuse it.';
COMMENT ON COLUMN upstream.conflicts.extra IS 'A JSON object of the other members; null where there are none.';
COMMENT ON COLUMN upstream.conflicts.message_type IS 'Null, or receipt.';
COMMENT ON COLUMN upstream.conflicts.stanza_from IS 'The stanza''s from attribute; null where absent.';
COMMENT ON COLUMN upstream.conflicts.received_at IS 'When the first copy with this content was parsed.';
COMMENT ON COLUMN upstream.conflicts.fingerprint IS 'The fingerprint of this content; differs from the one in message_ids.';
COMMENT ON COLUMN upstream.conflicts.times_seen IS 'How many copies with this content arrived.';
COMMENT ON COLUMN upstream.conflicts.last_seen_at IS 'When the latest copy with this content was parsed.';

CREATE TABLE upstream.quarantine (
    id bigint GENERATED ALWAYS AS IDENTITY,
    sender_id text NOT NULL,
    message_id text,
    reason text NOT NULL,
    detail text NOT NULL,
    stanza bytea NOT NULL,
    digest bytea NOT NULL,
    times_seen bigint NOT NULL,
    received_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    CONSTRAINT quarantine_pkey PRIMARY KEY (id),
    CONSTRAINT quarantine_sender_id_digest_key UNIQUE (sender_id, digest)
);
CREATE INDEX quarantine_received_at_idx ON upstream.quarantine (received_at);

COMMENT ON TABLE upstream.quarantine IS 'Stanzas that could not be taken as messages, verbatim: one row per sender and distinct stanza.';
COMMENT ON COLUMN upstream.quarantine.id IS 'Names the row; gaps are normal.';
COMMENT ON COLUMN upstream.quarantine.sender_id IS 'The configured sender whose connection delivered it.';
COMMENT ON COLUMN upstream.quarantine.message_id IS 'The id, where it has one that text can hold.';
COMMENT ON COLUMN upstream.quarantine.reason IS 'Why, from a closed set: message_id_unusable, from_unusable, identity_ambiguous, payload_not_json, payload_misplaced, duplicate_key, category_unusable, message_type_unknown, text_unstorable, field_too_long, database_refused.';
COMMENT ON COLUMN upstream.quarantine.detail IS 'More about the reason, in constant words; never content of the message.';
COMMENT ON COLUMN upstream.quarantine.stanza IS 'The stanza''s bytes as they came.';
COMMENT ON COLUMN upstream.quarantine.digest IS 'SHA-256 of stanza.';
COMMENT ON COLUMN upstream.quarantine.times_seen IS 'How many copies arrived; what can''t be acked comes again.';
COMMENT ON COLUMN upstream.quarantine.received_at IS 'When the first copy was parsed.';
COMMENT ON COLUMN upstream.quarantine.last_seen_at IS 'When the latest copy was parsed.';

-- Makes the partitions of the days from first_day to last_day that are missing, and tells how many it made.
-- SECURITY DEFINER: the worker's role inserts and selects, and owns nothing.
-- ATTACH takes a lock that lets inserts into the other days go on; CREATE TABLE … PARTITION OF would stop them.
CREATE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    day date;
    name name;
    made integer := 0;
BEGIN
    IF last_day - first_day > 400 THEN
        RAISE EXCEPTION 'upstream.ensure_partitions makes 400 days at most' USING ERRCODE = '22023';
    END IF;
    FOR day IN SELECT first_day + n FROM generate_series(0, last_day - first_day) AS n LOOP
        name := 'messages_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('upstream.' || name) IS NOT NULL;
        -- One maker at a time; whoever waited looks again, into the catalog itself: what to_regclass has cached may be
        -- older than the lock.
        PERFORM pg_advisory_xact_lock(hashtextextended('upstream.ensure_partitions', 0));
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_class WHERE relnamespace = 'upstream'::regnamespace AND relname = name);
        EXECUTE format('CREATE TABLE upstream.%I (LIKE upstream.messages INCLUDING ALL)', name);
        EXECUTE format('COMMENT ON TABLE upstream.%I IS %L', name, 'Messages received on ' || day || ' UTC.');
        EXECUTE format(
            'ALTER TABLE upstream.messages ATTACH PARTITION upstream.%I FOR VALUES FROM (%L) TO (%L)',
            name, day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
REVOKE ALL ON FUNCTION upstream.ensure_partitions(date, date) FROM PUBLIC;
COMMENT ON FUNCTION upstream.ensure_partitions(date, date) IS 'Makes the missing partitions of messages for these UTC days and returns their number.';

-- migrate:down
DROP FUNCTION upstream.ensure_partitions(date, date);
DROP TABLE upstream.quarantine;
DROP TABLE upstream.conflicts;
DROP TABLE upstream.messages;
DROP TABLE upstream.message_ids;
