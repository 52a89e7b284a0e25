-- migrate:up
-- Receiving: what came from devices, once each. The schema is in five files by subject: receiving, handling, replaying, retention,
-- console. Each is read from top to bottom, and tables come before the functions that use them. (The numbers 0001 to 0030 were
-- taken by builds before 0.1.0.)
--
-- A message takes this way: upstream.message_ids decides whether it is new, upstream.messages keeps it, and handlers get it by
-- upstream.deliveries (0102). A known id with another content goes to upstream.conflicts, what is no message to upstream.quarantine.
-- An ack is sent after the commit of upstream.store_batch, store_conflicts, store_quarantine or known_messages, and of nothing else.
--
-- Statistics of columns with tokens and payloads are off throughout: ANALYZE keeps samples of values in pg_statistic, where erasing a
-- row does not reach them.

CREATE TABLE upstream.message_ids (
    message_key uuid NOT NULL,
    fingerprint uuid NOT NULL,
    received_at timestamptz NOT NULL,
    CONSTRAINT message_ids_pkey PRIMARY KEY (message_key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE upstream.message_ids IS 'The dedupe ledger: one row for each message ever accepted, kept for retention.dedupe_window. Inserting here decides what is new.';
COMMENT ON COLUMN upstream.message_ids.message_key IS 'First 16 bytes of SHA-256(sender_id, 0x00, message_id); with id_scope device, of SHA-256(sender_id, 0x00, registration token, 0x00, message_id).';
COMMENT ON COLUMN upstream.message_ids.fingerprint IS 'First 16 bytes of SHA-256 over registration token, category, message_type and verbatim data, each preceded by its length in 8 bytes.';
COMMENT ON COLUMN upstream.message_ids.received_at IS 'When the first copy was parsed; the same as messages.received_at.';

-- Which senders there are, so that a message is found by its id without an index that each insert has to keep. Where ids are unique for a
-- sender, the message's key follows from both, and the ledger knows where a key is. Where they are unique for a device (id_scope
-- device), a Bloom filter for each range of blocks tells which ranges to read: autovacuum makes it when a range is full. That costs
-- inserts something, too (Benchmarks/Store), so upstream.filter_ids makes it only where a sender needs it.
CREATE TABLE upstream.senders (
    sender_id text NOT NULL,
    id_scope text NOT NULL,
    CONSTRAINT senders_pkey PRIMARY KEY (sender_id, id_scope),
    CONSTRAINT senders_id_scope_check CHECK (id_scope IN ('sender', 'device'))
);
COMMENT ON TABLE upstream.senders IS 'The senders that have messages, with what their keys are derived from; written with their first message. Look-ups by message_id read it.';
COMMENT ON COLUMN upstream.senders.sender_id IS 'The configured sender.';
COMMENT ON COLUMN upstream.senders.id_scope IS 'sender: message_key follows from sender_id and message_id alone; device: from the registration token, too.';

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
ALTER TABLE upstream.messages
    ALTER COLUMN registration_token SET STATISTICS 0,
    ALTER COLUMN data_raw SET STATISTICS 0,
    ALTER COLUMN extra SET STATISTICS 0;
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
COMMENT ON COLUMN upstream.messages.received_at IS 'When the worker had parsed the stanza, by the database''s clock; at the earliest an hour before it was stored.';

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
    released_at timestamptz,
    released_by text,
    CONSTRAINT conflicts_pkey PRIMARY KEY (message_key, fingerprint)
);
ALTER TABLE upstream.conflicts
    ALTER COLUMN registration_token SET STATISTICS 0,
    ALTER COLUMN data_raw SET STATISTICS 0,
    ALTER COLUMN extra SET STATISTICS 0;
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
COMMENT ON COLUMN upstream.conflicts.released_at IS 'When it was handed to the handlers; null where it was not.';
COMMENT ON COLUMN upstream.conflicts.released_by IS 'The role that handed it to the handlers.';

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
CREATE INDEX conflicts_release_key_idx ON upstream.conflicts (upstream.release_key(message_key, fingerprint))
    WHERE released_at IS NOT NULL;

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
ALTER TABLE upstream.quarantine ALTER COLUMN stanza SET STATISTICS 0;
CREATE INDEX quarantine_received_at_idx ON upstream.quarantine (received_at);
COMMENT ON TABLE upstream.quarantine IS 'Stanzas that could not be taken as messages, verbatim: one row per sender and distinct stanza.';
COMMENT ON COLUMN upstream.quarantine.id IS 'Names the row; gaps are normal.';
COMMENT ON COLUMN upstream.quarantine.sender_id IS 'The configured sender whose connection delivered it.';
COMMENT ON COLUMN upstream.quarantine.message_id IS 'The id, where it has one that text can hold.';
COMMENT ON COLUMN upstream.quarantine.reason IS 'Why, from a closed set: message_id_unusable, from_unusable, identity_ambiguous, payload_not_json, payload_misplaced, duplicate_key, category_unusable, message_type_unknown, text_unstorable, field_too_long, database_refused.';
COMMENT ON COLUMN upstream.quarantine.detail IS 'More about the reason, in constant words; never content of the message.';
COMMENT ON COLUMN upstream.quarantine.stanza IS 'The stanza''s bytes as they came.';
COMMENT ON COLUMN upstream.quarantine.digest IS 'SHA-256 over the sender''s address without its resource and the payload, without what servers add on the way; of rows from before 0011, of stanza.';
COMMENT ON COLUMN upstream.quarantine.times_seen IS 'How many copies arrived; what can''t be acked comes again.';
COMMENT ON COLUMN upstream.quarantine.received_at IS 'When the first copy was parsed.';
COMMENT ON COLUMN upstream.quarantine.last_seen_at IS 'When the latest copy was parsed.';
COMMENT ON SEQUENCE upstream.quarantine_id_seq IS 'Where quarantine.id comes from.';

-- A row of more than 2 kB is compressed, and PostgreSQL's own method then takes most of an insert's processor time: with lz4
-- such a message costs a third to six tenths of it.
DO $$
BEGIN
    ALTER TABLE upstream.messages
        ALTER COLUMN data SET COMPRESSION lz4,
        ALTER COLUMN data_raw SET COMPRESSION lz4,
        ALTER COLUMN extra SET COMPRESSION lz4;
    ALTER TABLE upstream.conflicts
        ALTER COLUMN data SET COMPRESSION lz4,
        ALTER COLUMN data_raw SET COMPRESSION lz4,
        ALTER COLUMN extra SET COMPRESSION lz4;
    ALTER TABLE upstream.quarantine ALTER COLUMN stanza SET COMPRESSION lz4;
EXCEPTION
    -- A server that was built without lz4: everything stays as it is.
    WHEN feature_not_supported THEN
        RAISE NOTICE 'this server was built without lz4: large messages cost it more';
END
$$;

-- The days of messages.
--
-- Bounds of partitions are text in the catalog, and days are written into names and literals: every function that does
-- so sets DateStyle and TimeZone itself. With a session's own, `05.12.2026` is a day in May for one reader and in December
-- for another, and Pacific/Apia has no 30 December 2011 at all.

-- Every partition with its bounds, whatever it is called. Both are null for a default partition.
CREATE FUNCTION upstream.partitions(
    OUT relation oid, OUT relname name, OUT since timestamptz, OUT until timestamptz, OUT is_detaching boolean
) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' AS $$
    SELECT c.oid, c.relname,
        CASE WHEN bounds[1] = 'MINVALUE' THEN '-infinity' ELSE btrim(bounds[1], '''')::timestamptz END,
        CASE WHEN bounds[2] = 'MAXVALUE' THEN 'infinity' ELSE btrim(bounds[2], '''')::timestamptz END,
        i.inhdetachpending
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    LEFT JOIN LATERAL regexp_match(
        pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \((.*)\) TO \((.*)\)$') AS bounds ON true
    WHERE i.inhparent = 'upstream.messages'::regclass
$$;
COMMENT ON FUNCTION upstream.partitions() IS 'The partitions of messages with their bounds: what is attached, whatever it is called. Usually a day each.';

-- Days that have messages are left alone: building an index stops inserts. `migrate up` does that without a lock.
CREATE FUNCTION upstream.filter_ids() RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = 1500 AS $$
DECLARE
    day record;
    is_used boolean;
    made integer := 0;
BEGIN
    IF NOT EXISTS (SELECT FROM upstream.senders WHERE id_scope = 'device') THEN
        RETURN 0;
    END IF;
    IF to_regclass('upstream.messages_message_id_idx') IS NULL THEN
        CREATE INDEX messages_message_id_idx ON ONLY upstream.messages
            USING brin (message_id text_bloom_ops (n_distinct_per_range = 2000, false_positive_rate = 0.01))
            WITH (pages_per_range = 64, autosummarize = on);
    END IF;
    FOR day IN
        SELECT p.relname, left(p.relname, 48) || '_message_id_idx' AS index FROM upstream.partitions() AS p
        WHERE NOT EXISTS (
            SELECT FROM pg_index AS x JOIN pg_inherits AS i ON i.inhrelid = x.indexrelid
            WHERE x.indrelid = p.relation AND i.inhparent = 'upstream.messages_message_id_idx'::regclass)
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM upstream.%I)', day.relname) INTO is_used;
        CONTINUE WHEN is_used OR to_regclass(format('upstream.%I', day.index)) IS NOT NULL;
        EXECUTE format(
            'CREATE INDEX %I ON upstream.%I %s', day.index, day.relname,
            substring(pg_get_indexdef('upstream.messages_message_id_idx'::regclass) FROM 'USING .*'));
        EXECUTE format('ALTER INDEX upstream.messages_message_id_idx ATTACH PARTITION upstream.%I', day.index);
        made := made + 1;
    END LOOP;
    RETURN made;
EXCEPTION
    -- Somebody is busy there; the next day's partition needs making all the same.
    WHEN lock_not_available THEN
        RETURN 0;
END
$$;
REVOKE ALL ON FUNCTION upstream.filter_ids() FROM PUBLIC;
COMMENT ON FUNCTION upstream.filter_ids() IS 'Gives the days that have no message yet an index for look-ups by message_id, where a sender has id_scope device; returns how many. ensure_partitions calls it.';

-- What counts is what is attached, never a name: a table of a day's name that is detached takes no inserts. It is left
-- alone, for whoever detached it has a use for it, and the day's partition gets another name.
--
-- SECURITY DEFINER: the worker's role inserts and selects, and owns nothing.
-- ATTACH takes a lock that lets inserts into the other days go on; CREATE TABLE … PARTITION OF would stop them.
CREATE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' AS $$
DECLARE
    missing date[];
    day date;
    day_start timestamptz;
    day_end timestamptz;
    base name;
    title name;
    number integer;
    other record;
    made integer := 0;
BEGIN
    -- Not of class 22: a worker's clock that is out of its mind says nothing about a message.
    IF first_day < '2000-01-01' OR last_day > '2100-12-31' THEN
        RAISE EXCEPTION 'upstream.ensure_partitions makes partitions of the years 2000 to 2100, not of % to %',
            first_day, last_day
            USING ERRCODE = '55000', HINT = 'Set the clock of the machine that asks.';
    END IF;
    IF last_day - first_day > 400 THEN
        RAISE EXCEPTION 'upstream.ensure_partitions makes 400 days at most' USING ERRCODE = '22023';
    END IF;
    FOR pass IN 1..2 LOOP
        SELECT array_agg(first_day + n ORDER BY n) INTO missing
        FROM generate_series(0, last_day - first_day) AS n
        WHERE NOT EXISTS (
            SELECT FROM upstream.partitions() AS p
            WHERE p.since <= (first_day + n)::timestamptz AND p.until >= (first_day + n + 1)::timestamptz
                AND NOT p.is_detaching
        );
        IF missing IS NULL THEN
            RETURN 0;
        END IF;
        -- One maker at a time; whoever waited looks again.
        PERFORM pg_advisory_xact_lock(hashtextextended('upstream.ensure_partitions', 0));
    END LOOP;
    -- What is made below then has the filter.
    PERFORM upstream.filter_ids();
    FOREACH day IN ARRAY missing LOOP
        day_start := day::timestamptz;
        day_end := (day + 1)::timestamptz;
        SELECT p.relname, p.is_detaching INTO other FROM upstream.partitions() AS p
        WHERE p.since < day_end AND p.until > day_start LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'the partition % takes a part of % UTC', quote_ident(other.relname), day
                USING ERRCODE = '55000', HINT = format(
                    'ALTER TABLE upstream.messages DETACH PARTITION upstream.%I%s', other.relname,
                    CASE WHEN other.is_detaching THEN ' FINALIZE' ELSE '' END);
        END IF;
        base := 'messages_' || to_char(day, 'YYYYMMDD');
        title := base;
        number := 0;
        WHILE EXISTS (SELECT FROM pg_class WHERE relnamespace = 'upstream'::regnamespace AND relname = title) LOOP
            number := number + 1;
            title := base || '_' || number;
        END LOOP;
        EXECUTE format('CREATE TABLE upstream.%I (LIKE upstream.messages INCLUDING ALL)', title);
        -- LIKE leaves these behind.
        EXECUTE format(
            'ALTER TABLE upstream.%I ALTER COLUMN registration_token SET STATISTICS 0, '
            'ALTER COLUMN data_raw SET STATISTICS 0, ALTER COLUMN extra SET STATISTICS 0', title);
        EXECUTE format('COMMENT ON TABLE upstream.%I IS %L', title, 'Messages received on ' || day || ' UTC.');
        EXECUTE format(
            'ALTER TABLE upstream.messages ATTACH PARTITION upstream.%I FOR VALUES FROM (%L) TO (%L)',
            title, day_start, day_end);
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
REVOKE ALL ON FUNCTION upstream.ensure_partitions(date, date) FROM PUBLIC;
COMMENT ON FUNCTION upstream.ensure_partitions(date, date) IS 'Makes the missing partitions of messages for these UTC days, of the years 2000 to 2100, and returns their number. Where a day''s name is taken by a relation that is not attached, the partition is called messages_YYYYMMDD_1.';

-- Look-ups by id.

CREATE FUNCTION upstream.message_key(sender_id text, message_id text) RETURNS uuid
LANGUAGE sql STABLE AS $$
    SELECT encode(substring(
        sha256(convert_to(sender_id, 'UTF8') || '\x00'::bytea || convert_to(message_id, 'UTF8')) FOR 16), 'hex')::uuid
$$;
COMMENT ON FUNCTION upstream.message_key(text, text) IS 'The message_key of an id, where ids are unique for a sender (id_scope sender).';

-- One statement for each step, so that each has the one plan it can have.
CREATE FUNCTION upstream.messages_with_id(id text) RETURNS SETOF upstream.messages
LANGUAGE plpgsql STABLE ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sender text;
    key uuid;
    arrival timestamptz;
BEGIN
    FOR sender IN SELECT s.sender_id FROM upstream.senders AS s WHERE s.id_scope = 'sender' LOOP
        key := upstream.message_key(sender, id);
        SELECT i.received_at INTO arrival FROM upstream.message_ids AS i WHERE i.message_key = key;
        CONTINUE WHEN NOT FOUND;
        RETURN QUERY
        SELECT * FROM upstream.messages AS m
        WHERE m.received_at = arrival AND m.message_key = key AND m.sender_id = sender AND m.message_id = id;
    END LOOP;
    IF EXISTS (SELECT FROM upstream.senders AS s WHERE s.id_scope = 'device') THEN
        RETURN QUERY
        SELECT * FROM upstream.messages AS m
        WHERE m.message_id = id AND NOT (
            m.message_key = upstream.message_key(m.sender_id, id)
            AND EXISTS (SELECT FROM upstream.senders AS s WHERE s.sender_id = m.sender_id AND s.id_scope = 'sender')
        );
    END IF;
END
$$;
COMMENT ON FUNCTION upstream.messages_with_id(text) IS 'The messages with this message_id, one for each sender, or device, that used it. A condition on message_id alone reads every message.';

-- Storing. What belongs to messages and their deliveries is in 0102.
--
-- These are functions for the sake of what PostgreSQL logs: a statement that fails on a value is logged with that value (a JSON
-- error quotes the text, a violated constraint the row), and here that would be a device's payload. Caught, it is not
-- logged: nothing of the batch is kept, and the caller gets the SQLSTATE and the table instead. Failures that say nothing
-- about a row are not caught. `data` comes as text, so that turning it into json happens in here too.
--
-- What was stored is compared with what there was to store: a trigger or rule of the site's may drop rows, and says nothing. Catalogs are
-- read only once something is wrong.
CREATE FUNCTION upstream.raise_rows_missing(wanted bigint, stored bigint, VARIADIC relations regclass[]) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    causes text;
BEGIN
    SELECT string_agg(cause, ', ' ORDER BY cause) INTO causes FROM (
        -- Of rows, before inserts. What partitions have from their table is named once.
        SELECT format('trigger %I on %s', t.tgname, t.tgrelid::regclass) FROM pg_trigger AS t
        WHERE t.tgtype & 7 = 7 AND t.tgenabled <> 'D' AND t.tgparentid = 0 AND NOT t.tgisinternal AND (
            t.tgrelid = ANY (relations)
            OR t.tgrelid IN (SELECT p.relid FROM unnest(relations) AS r (id), pg_partition_tree(r.id) AS p)
        )
        UNION ALL
        SELECT format('rule %I on %s', r.rulename, r.ev_class::regclass) FROM pg_rewrite AS r
        WHERE r.ev_class = ANY (relations) AND r.ev_type IN ('2', '3') AND r.ev_enabled <> 'D'
    ) AS found (cause);
    RAISE EXCEPTION USING ERRCODE = 'UW002', MESSAGE = format(
        '%s of %s rows were not stored in %s, and nothing is acked: %s', wanted - stored, wanted,
        array_to_string(relations, ', '),
        coalesce('drop or change ' || causes, 'the trigger or rule that did this is gone by now'));
END
$$;
COMMENT ON FUNCTION upstream.raise_rows_missing(bigint, bigint, regclass[]) IS 'Fails, naming the triggers and rules that may have kept rows out of a table.';

-- The same call may come again when its answer was lost: a copy with the row's own time has been counted before. An
-- earlier one has not, since another writer may have been faster; so a count can be too high after a lost answer, and is
-- never too low.
CREATE FUNCTION upstream.store_conflicts(
    keys uuid[], fingerprints uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    missing bigint;
BEGIN
    -- As in upstream.store_batch. A known row is locked even where nothing is counted, which is a write: the commit waits.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('client_min_messages') = 'error' THEN
        PERFORM set_config('client_min_messages', 'warning', true);
    END IF;
    WITH input AS (
        SELECT *,
            count(*) OVER copies AS seen,
            max(at) OVER copies AS last_at,
            row_number() OVER (copies ORDER BY at) AS place
        FROM unnest(
            keys, fingerprints, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms
        ) AS input (key, print, at, sender, id, token, device, name, data, raw, extra, type, stanza_from)
        WINDOW copies AS (PARTITION BY key, print)
    ), counted AS (
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
            WHERE known.last_seen_at <> excluded.last_seen_at
        RETURNING 1
    )
    SELECT count(*) INTO stored FROM counted;
    -- Fewer also where copies are of one conflict, or have been counted.
    IF stored < cardinality(keys) THEN
        SELECT count(*) INTO missing
        FROM (SELECT DISTINCT key, print FROM unnest(keys, fingerprints) AS input (key, print)) AS input
        WHERE NOT EXISTS (
            SELECT FROM upstream.conflicts AS c WHERE c.message_key = input.key AND c.fingerprint = input.print
        );
        IF missing > 0 THEN
            PERFORM upstream.raise_rows_missing(stored + missing, stored, 'upstream.conflicts');
        END IF;
    END IF;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
        PERFORM txid_current() WHERE refused_state = '54000';
    -- A statement in WITH, or one with ON CONFLICT, on a table with rules; PostgreSQL does not say which.
    WHEN feature_not_supported THEN
        IF EXISTS (SELECT FROM pg_rules AS r WHERE r.schemaname = 'upstream') THEN
            PERFORM upstream.raise_rows_missing(cardinality(keys), 0, 'upstream.conflicts');
        END IF;
        RAISE;
END
$$;
COMMENT ON FUNCTION upstream.store_conflicts(
    uuid[], uuid[], timestamptz[], text[], text[], text[], uuid[], text[], text[], text[], text[], text[], text[]
) IS 'Stores and counts copies of known messages with other content; refused ones are not logged.';

-- Counted as in upstream.store_conflicts.
CREATE FUNCTION upstream.store_quarantine(
    senders text[], ids text[], reasons text[], details text[], stanzas bytea[], times timestamptz[], digests bytea[],
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    missing bigint;
BEGIN
    -- As in upstream.store_conflicts: some of them are acked.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('client_min_messages') = 'error' THEN
        PERFORM set_config('client_min_messages', 'warning', true);
    END IF;
    WITH input AS (
        SELECT *,
            count(*) OVER copies AS seen,
            max(at) OVER copies AS last_at,
            row_number() OVER (copies ORDER BY at) AS place
        FROM unnest(senders, ids, reasons, details, stanzas, times, digests)
            AS input (sender, id, why, remark, bytes, at, print)
        WINDOW copies AS (PARTITION BY sender, print)
    ), counted AS (
        INSERT INTO upstream.quarantine AS known (
            sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
        )
        SELECT sender, id, why, remark, bytes, print, seen, at, last_at
        FROM input WHERE place = 1
        ORDER BY sender, print
        ON CONFLICT (sender_id, digest) DO UPDATE
            SET times_seen = known.times_seen + excluded.times_seen,
                last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at)
            WHERE known.last_seen_at <> excluded.last_seen_at
        RETURNING 1
    )
    SELECT count(*) INTO stored FROM counted;
    IF stored < cardinality(digests) THEN
        SELECT count(*) INTO missing
        FROM (SELECT DISTINCT sender, print FROM unnest(senders, digests) AS input (sender, print)) AS input
        WHERE NOT EXISTS (
            SELECT FROM upstream.quarantine AS q WHERE q.sender_id = input.sender AND q.digest = input.print
        );
        IF missing > 0 THEN
            PERFORM upstream.raise_rows_missing(stored + missing, stored, 'upstream.quarantine');
        END IF;
    END IF;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        stored := NULL;
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
        PERFORM txid_current() WHERE refused_state = '54000';
    -- A statement in WITH, or one with ON CONFLICT, on a table with rules; PostgreSQL does not say which.
    WHEN feature_not_supported THEN
        IF EXISTS (SELECT FROM pg_rules AS r WHERE r.schemaname = 'upstream') THEN
            PERFORM upstream.raise_rows_missing(cardinality(digests), 0, 'upstream.quarantine');
        END IF;
        RAISE;
END
$$;
COMMENT ON FUNCTION upstream.store_quarantine(text[], text[], text[], text[], bytea[], timestamptz[], bytea[]) IS 'Stores stanzas that no table of messages can hold, or counts them again; what is refused stores nothing and is not logged.';

-- A copy of a known message is acked on the strength of a row that another transaction wrote. That row may be visible and yet
-- not be on the standby: its commit's wait was broken off, or the server has restarted since. A transaction that only
-- reads waits for nothing; one that writes a record after what it read is confirmed after it.
CREATE FUNCTION upstream.known_messages(keys uuid[])
RETURNS TABLE (message_key uuid, fingerprint uuid, received_at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('client_min_messages') = 'error' THEN
        PERFORM set_config('client_min_messages', 'warning', true);
    END IF;
    RETURN QUERY
        SELECT m.message_key, m.fingerprint, m.received_at
        FROM upstream.message_ids AS m WHERE m.message_key = ANY (keys);
    PERFORM pg_logical_emit_message(true, 'upstream', '');
END
$$;
COMMENT ON FUNCTION upstream.known_messages(uuid[]) IS 'The ledger''s rows for some keys, in a transaction that commits only after they are as durable as the server makes them.';

-- migrate:down
DROP FUNCTION
    upstream.known_messages, upstream.store_quarantine, upstream.store_conflicts, upstream.raise_rows_missing,
    upstream.messages_with_id, upstream.message_key, upstream.ensure_partitions, upstream.filter_ids, upstream.partitions;
DROP TABLE upstream.quarantine, upstream.conflicts, upstream.messages, upstream.senders, upstream.message_ids;
DROP FUNCTION upstream.release_key;
