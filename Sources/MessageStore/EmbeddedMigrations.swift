// Made by scripts/embed-migrations from migrations/. Do not edit.
// swift-format-ignore-file

extension Migration {
    /// The files of `migrations/`, oldest first.
    package static let embedded: [Migration] = [
        Migration(fileName: "0001_messages.sql", text: #"""
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

"""#),
        Migration(fileName: "0002_handlers.sql", text: #"""
-- migrate:up
CREATE TABLE upstream.handlers (
    name text NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    paused_until timestamptz,
    paused_reason text,
    paused_at timestamptz,
    registered_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT handlers_pkey PRIMARY KEY (name)
);
COMMENT ON TABLE upstream.handlers IS 'The handlers that workers have registered, and whether they are paused.';
COMMENT ON COLUMN upstream.handlers.name IS 'The configured name.';
COMMENT ON COLUMN upstream.handlers.paused IS 'Whether no delivery may be claimed; see paused_until.';
COMMENT ON COLUMN upstream.handlers.paused_until IS 'When a pause ends by itself; null where it lasts until it is resumed.';
COMMENT ON COLUMN upstream.handlers.paused_reason IS 'Who or what paused it, and why.';
COMMENT ON COLUMN upstream.handlers.paused_at IS 'When it was paused.';
COMMENT ON COLUMN upstream.handlers.registered_at IS 'When a worker first registered it; it gets messages received from then on.';

CREATE TABLE upstream.subscriptions (
    handler text NOT NULL,
    category text NOT NULL,
    by_device boolean NOT NULL DEFAULT false,
    CONSTRAINT subscriptions_pkey PRIMARY KEY (handler, category),
    CONSTRAINT subscriptions_handler_fkey FOREIGN KEY (handler) REFERENCES upstream.handlers ON DELETE CASCADE
);
CREATE INDEX subscriptions_category_idx ON upstream.subscriptions (category);
COMMENT ON TABLE upstream.subscriptions IS 'Which handler gets which category; read by every worker as it stores messages.';
COMMENT ON COLUMN upstream.subscriptions.handler IS 'The handler.';
COMMENT ON COLUMN upstream.subscriptions.category IS 'An exact category, or * for all.';
COMMENT ON COLUMN upstream.subscriptions.by_device IS 'Whether the handler takes each device''s messages one at a time, in arrival order.';

-- Fencing tokens: whoever claims later holds the greater one.
CREATE SEQUENCE upstream.lease_tokens;
COMMENT ON SEQUENCE upstream.lease_tokens IS 'Where deliveries.lease_token comes from.';

-- Small and hot: rows live for as long as a delivery takes. Free space in each page keeps lease updates on the page, and
-- vacuum comes early.
CREATE TABLE upstream.deliveries (
    handler text NOT NULL,
    message_key uuid NOT NULL,
    received_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,
    lease_owner text,
    lease_token bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    last_error text,
    replay_id uuid,
    crashes smallint NOT NULL DEFAULT 0,
    device_key uuid,
    CONSTRAINT deliveries_pkey PRIMARY KEY (message_key, handler)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX deliveries_claim_idx ON upstream.deliveries (handler, next_attempt_at);
-- Two small ones beside it: what may bring workers down, and the queues of devices.
CREATE INDEX deliveries_crashes_idx ON upstream.deliveries (handler, next_attempt_at) WHERE crashes > 0;
CREATE INDEX deliveries_device_idx ON upstream.deliveries (handler, device_key, received_at, message_key)
    WHERE device_key IS NOT NULL;
COMMENT ON TABLE upstream.deliveries IS 'What is still to be handled: a row per message and subscribed handler, inserted with the message, deleted on success.';
COMMENT ON COLUMN upstream.deliveries.handler IS 'The handler.';
COMMENT ON COLUMN upstream.deliveries.message_key IS 'The message; with received_at the primary key of messages.';
COMMENT ON COLUMN upstream.deliveries.received_at IS 'The message''s received_at.';
COMMENT ON COLUMN upstream.deliveries.attempts IS 'Attempts that failed and count.';
COMMENT ON COLUMN upstream.deliveries.next_attempt_at IS 'When it may be claimed next.';
COMMENT ON COLUMN upstream.deliveries.lease_owner IS 'The worker that holds it; null where it is free.';
COMMENT ON COLUMN upstream.deliveries.lease_token IS 'Fencing token of the latest claim: each claim has a greater one, and settling needs the current one.';
COMMENT ON COLUMN upstream.deliveries.lease_until IS 'When the lease ends unless its owner renews it.';
COMMENT ON COLUMN upstream.deliveries.last_error IS 'What the latest attempt failed with.';
COMMENT ON COLUMN upstream.deliveries.replay_id IS 'The replay that asked for it; null for the first delivery.';
COMMENT ON COLUMN upstream.deliveries.crashes IS 'Workers in a row that stopped working while they held it.';
COMMENT ON COLUMN upstream.deliveries.device_key IS 'The message''s device_key where the handler goes by device; null elsewhere.';

CREATE TABLE upstream.dead_letters (
    handler text NOT NULL,
    message_key uuid NOT NULL,
    received_at timestamptz NOT NULL,
    attempts integer NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    lease_owner text,
    lease_token bigint NOT NULL,
    lease_until timestamptz,
    last_error text,
    replay_id uuid,
    crashes smallint NOT NULL DEFAULT 0,
    device_key uuid,
    error_group text NOT NULL,
    died_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT dead_letters_pkey PRIMARY KEY (message_key, handler)
);
CREATE INDEX dead_letters_handler_died_at_idx ON upstream.dead_letters (handler, died_at);
CREATE INDEX dead_letters_handler_group_idx ON upstream.dead_letters (handler, error_group);
COMMENT ON TABLE upstream.dead_letters IS 'Deliveries that gave up, until they are retried or discarded.';
COMMENT ON COLUMN upstream.dead_letters.handler IS 'The handler.';
COMMENT ON COLUMN upstream.dead_letters.message_key IS 'The message; with received_at the primary key of messages.';
COMMENT ON COLUMN upstream.dead_letters.received_at IS 'The message''s received_at.';
COMMENT ON COLUMN upstream.dead_letters.attempts IS 'Attempts that were made.';
COMMENT ON COLUMN upstream.dead_letters.next_attempt_at IS 'When the last attempt was due.';
COMMENT ON COLUMN upstream.dead_letters.lease_owner IS 'The worker that made the last attempt.';
COMMENT ON COLUMN upstream.dead_letters.lease_token IS 'The last attempt''s fencing token.';
COMMENT ON COLUMN upstream.dead_letters.lease_until IS 'The end of the last attempt''s lease.';
COMMENT ON COLUMN upstream.dead_letters.last_error IS 'What the last attempt failed with.';
COMMENT ON COLUMN upstream.dead_letters.replay_id IS 'The replay that asked for it; null for the first delivery.';
COMMENT ON COLUMN upstream.dead_letters.crashes IS 'Workers in a row that stopped working while they held it.';
COMMENT ON COLUMN upstream.dead_letters.device_key IS 'The message''s device_key where the handler goes by device; null elsewhere.';
COMMENT ON COLUMN upstream.dead_letters.error_group IS 'The fingerprint of last_error that groups like failures.';
COMMENT ON COLUMN upstream.dead_letters.died_at IS 'When it gave up.';

-- One batch of the receive path: new ledger rows, their bodies and their deliveries. Gives the number of new messages.
--
-- A function for the sake of what PostgreSQL logs: a statement that fails on a value is logged with that value (a JSON
-- error quotes the text, a violated constraint the row), and here that would be a device's payload. Caught, it is not
-- logged: nothing of the batch is kept, and the caller gets the SQLSTATE and the table instead. Failures that say nothing
-- about a row are not caught. `data` comes as text, so that turning it into json happens in here too.
--
-- IS TRUE keeps the planner from making a join of the look-ups in fresh, whose size it can't know: a hashed subplan is
-- right at every batch size.
CREATE FUNCTION upstream.store_messages(
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
COMMENT ON FUNCTION upstream.store_messages IS 'Stores the new ones of a batch of messages with their deliveries, leased to holder where offered names the handler; a refused batch stores nothing and is not logged.';

-- Copies of known messages with other content; like upstream.store_messages it keeps content out of PostgreSQL's log.
-- The same call may come again when its answer was lost: a copy with the row's own time has been counted before. An
-- earlier one has not, since another writer may have been faster; so a count can be too high after a lost answer, and is
-- never too low.
CREATE FUNCTION upstream.store_conflicts(
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
COMMENT ON FUNCTION upstream.store_conflicts(
    uuid[], uuid[], timestamptz[], text[], text[], text[], uuid[], text[], text[], text[], text[], text[], text[]
) IS 'Stores and counts copies of known messages with other content; refused ones are not logged.';

-- migrate:down
DROP FUNCTION upstream.store_conflicts(
    uuid[], uuid[], timestamptz[], text[], text[], text[], uuid[], text[], text[], text[], text[], text[], text[]
);
DROP FUNCTION upstream.store_messages;
DROP TABLE upstream.dead_letters;
DROP TABLE upstream.deliveries;
DROP TABLE upstream.subscriptions;
DROP SEQUENCE upstream.lease_tokens;
DROP TABLE upstream.handlers;

"""#),
        Migration(fileName: "0003_replays.sql", text: #"""
-- migrate:up
CREATE TABLE upstream.replays (
    replay_id uuid NOT NULL DEFAULT gen_random_uuid(),
    name text NOT NULL,
    kind text NOT NULL,
    target text NOT NULL,
    occupies text[] NOT NULL,
    handlers text[] NOT NULL DEFAULT '{}',
    only_failed boolean NOT NULL DEFAULT false,
    selection json NOT NULL,
    options json NOT NULL,
    state text NOT NULL DEFAULT 'planned',
    reason text,
    created_by text NOT NULL,
    created_role text NOT NULL DEFAULT session_user,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    planned bigint NOT NULL,
    first_received_at timestamptz,
    last_received_at timestamptz,
    done bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    runs integer NOT NULL DEFAULT 0,
    lease_owner text,
    lease_token bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    last_error text,
    CONSTRAINT replays_pkey PRIMARY KEY (replay_id),
    CONSTRAINT replays_kind_check CHECK (kind IN ('handlers', 'output', 'endpoint')),
    CONSTRAINT replays_done_check CHECK (done BETWEEN 0 AND planned AND skipped BETWEEN 0 AND done),
    CONSTRAINT replays_state_check
        CHECK (state IN ('planned', 'running', 'paused', 'finished', 'cancelled', 'failed'))
);
-- One replay of a name at a time; one per target is checked where one is started, under a lock.
CREATE UNIQUE INDEX replays_name_key ON upstream.replays (name) WHERE state IN ('planned', 'running', 'paused', 'failed');
COMMENT ON TABLE upstream.replays IS 'Replays of stored messages: what was planned, by whom and why, and how far it came.';
COMMENT ON COLUMN upstream.replays.replay_id IS 'Names the replay; handlers see it.';
COMMENT ON COLUMN upstream.replays.name IS 'The name a person gave it.';
COMMENT ON COLUMN upstream.replays.kind IS 'What it sends to: handlers, output (a file or stdout), or endpoint (an XMPP server).';
COMMENT ON COLUMN upstream.replays.target IS 'Where the messages go, for people.';
COMMENT ON COLUMN upstream.replays.occupies IS 'What no other replay may send to while this one is running or paused.';
COMMENT ON COLUMN upstream.replays.handlers IS 'The handlers that it sends to; replay_messages.handler counts them from 1.';
COMMENT ON COLUMN upstream.replays.only_failed IS 'Whether it takes dead letters only: one that is gone by then is passed over.';
COMMENT ON COLUMN upstream.replays.selection IS 'The filter that selected the messages; what it selected is in replay_messages.';
COMMENT ON COLUMN upstream.replays.options IS 'Rate, pacing, concurrency, format.';
COMMENT ON COLUMN upstream.replays.state IS 'planned, running, paused, finished, cancelled or failed.';
COMMENT ON COLUMN upstream.replays.reason IS 'Why, in the words of whoever planned it.';
COMMENT ON COLUMN upstream.replays.created_by IS 'Who planned it: user and host of the command.';
COMMENT ON COLUMN upstream.replays.created_role IS 'The database role that planned it.';
COMMENT ON COLUMN upstream.replays.created_at IS 'When it was planned.';
COMMENT ON COLUMN upstream.replays.started_at IS 'When its present run began.';
COMMENT ON COLUMN upstream.replays.finished_at IS 'When it ended.';
COMMENT ON COLUMN upstream.replays.planned IS 'How many deliveries (of messages to handlers) or messages the selection holds.';
COMMENT ON COLUMN upstream.replays.first_received_at IS 'The received_at of the first message of the selection.';
COMMENT ON COLUMN upstream.replays.last_received_at IS 'The received_at of the last message of the selection.';
COMMENT ON COLUMN upstream.replays.done IS 'How many of them, from the first on, are done; where a run continues.';
COMMENT ON COLUMN upstream.replays.skipped IS 'How many of those were passed over: the body is gone, or the delivery waits already.';
COMMENT ON COLUMN upstream.replays.bytes IS 'How much of the output file belongs to what is done.';
COMMENT ON COLUMN upstream.replays.runs IS 'How often it was begun from its first message.';
COMMENT ON COLUMN upstream.replays.lease_owner IS 'The process that runs it; null where none does.';
COMMENT ON COLUMN upstream.replays.lease_token IS 'Fencing token: grows with each take-over, and with each change of state.';
COMMENT ON COLUMN upstream.replays.lease_until IS 'When the lease ends unless its owner renews it.';
COMMENT ON COLUMN upstream.replays.last_error IS 'What stopped it last.';

-- The selection as it was when it was planned, in the order it is sent in: 1,000 to a row. A row for each message would
-- cost five times the time and the space.
CREATE TABLE upstream.replay_messages (
    replay_id uuid NOT NULL,
    chunk integer NOT NULL,
    received_at timestamptz[] NOT NULL,
    message_key uuid[] NOT NULL,
    handler smallint[],
    CONSTRAINT replay_messages_pkey PRIMARY KEY (replay_id, chunk),
    CONSTRAINT replay_messages_replay_id_fkey FOREIGN KEY (replay_id) REFERENCES upstream.replays ON DELETE CASCADE
);
-- Hashes don't compress.
ALTER TABLE upstream.replay_messages
    ALTER COLUMN received_at SET STORAGE EXTERNAL,
    ALTER COLUMN message_key SET STORAGE EXTERNAL,
    ALTER COLUMN handler SET STORAGE EXTERNAL;
COMMENT ON TABLE upstream.replay_messages IS 'What each replay sends, frozen when it was planned: 1,000 messages to a row, in the order of received_at and message_key.';
COMMENT ON COLUMN upstream.replay_messages.replay_id IS 'The replay.';
COMMENT ON COLUMN upstream.replay_messages.chunk IS 'Counts the replay''s rows from 0.';
COMMENT ON COLUMN upstream.replay_messages.received_at IS 'The messages'' received_at.';
COMMENT ON COLUMN upstream.replay_messages.message_key IS 'The messages'' keys; with received_at the primary key of messages.';
COMMENT ON COLUMN upstream.replay_messages.handler IS 'The handler each goes to, by its place in replays.handlers; null where the target is no handler.';

CREATE TABLE upstream.replay_events (
    replay_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    event text NOT NULL,
    who text NOT NULL,
    role text NOT NULL DEFAULT session_user,
    done bigint NOT NULL,
    detail text,
    CONSTRAINT replay_events_replay_id_fkey FOREIGN KEY (replay_id) REFERENCES upstream.replays ON DELETE CASCADE
);
CREATE INDEX replay_events_replay_id_idx ON upstream.replay_events (replay_id, at);
COMMENT ON TABLE upstream.replay_events IS 'What happened to each replay: who planned, started, paused, resumed, cancelled, took over and ended it, and when.';
COMMENT ON COLUMN upstream.replay_events.replay_id IS 'The replay.';
COMMENT ON COLUMN upstream.replay_events.at IS 'When.';
COMMENT ON COLUMN upstream.replay_events.event IS 'planned, started, paused, resumed, cancelled, taken, released, finished or failed.';
COMMENT ON COLUMN upstream.replay_events.who IS 'User and host of the command, or the worker.';
COMMENT ON COLUMN upstream.replay_events.role IS 'The database role.';
COMMENT ON COLUMN upstream.replay_events.done IS 'How far the replay was.';
COMMENT ON COLUMN upstream.replay_events.detail IS 'More: the reason that was given, or the error.';

-- How many deliveries of a replay still wait is asked for all the time while it runs.
CREATE INDEX deliveries_replay_id_idx ON upstream.deliveries (replay_id) WHERE replay_id IS NOT NULL;

-- migrate:down
DROP INDEX upstream.deliveries_replay_id_idx;
DROP TABLE upstream.replay_events;
DROP TABLE upstream.replay_messages;
DROP TABLE upstream.replays;

"""#),
        Migration(fileName: "0004_retention.sql", text: #"""
-- migrate:up
-- A block range keeps the earliest time it ever held, and what is deleted is filled with what is new: after a first round
-- of retention every range would match. Retention reads the ledger block by block instead.
DROP INDEX upstream.message_ids_received_at_idx;
ALTER TABLE upstream.message_ids SET (autovacuum_vacuum_scale_factor = 0.05);

-- ANALYZE keeps samples of values in pg_statistic, where erasing a row does not reach them: none of tokens and payloads.
ALTER TABLE upstream.messages
    ALTER COLUMN registration_token SET STATISTICS 0,
    ALTER COLUMN data_raw SET STATISTICS 0,
    ALTER COLUMN extra SET STATISTICS 0;
ALTER TABLE upstream.conflicts
    ALTER COLUMN registration_token SET STATISTICS 0,
    ALTER COLUMN data_raw SET STATISTICS 0,
    ALTER COLUMN extra SET STATISTICS 0;
ALTER TABLE upstream.quarantine ALTER COLUMN stanza SET STATISTICS 0;
ALTER TABLE upstream.deliveries ALTER COLUMN last_error SET STATISTICS 0;
ALTER TABLE upstream.dead_letters ALTER COLUMN last_error SET STATISTICS 0;

CREATE TABLE upstream.retention_runs (
    finished_at timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    run_by text NOT NULL DEFAULT session_user,
    partitions_dropped integer NOT NULL,
    partitions_held integer NOT NULL,
    ids_deleted bigint NOT NULL,
    conflicts_deleted bigint NOT NULL,
    quarantine_deleted bigint NOT NULL
);
CREATE INDEX retention_runs_finished_at_idx ON upstream.retention_runs (finished_at);
COMMENT ON TABLE upstream.retention_runs IS 'The runs of retention that left nothing for want of a lock: workers make one each UTC day.';
COMMENT ON COLUMN upstream.retention_runs.finished_at IS 'When it had ended.';
COMMENT ON COLUMN upstream.retention_runs.started_at IS 'When it began, by the clock of whoever ran it: what was too old is judged by it.';
COMMENT ON COLUMN upstream.retention_runs.run_by IS 'The role that ran it.';
COMMENT ON COLUMN upstream.retention_runs.partitions_dropped IS 'Days of messages that it dropped.';
COMMENT ON COLUMN upstream.retention_runs.partitions_held IS 'Days that are too old and that it kept, for deliveries or dead letters need them.';
COMMENT ON COLUMN upstream.retention_runs.ids_deleted IS 'Rows of the ledger that it deleted.';
COMMENT ON COLUMN upstream.retention_runs.conflicts_deleted IS 'Conflicts that it deleted.';
COMMENT ON COLUMN upstream.retention_runs.quarantine_deleted IS 'Quarantined stanzas that it deleted.';

COMMENT ON SEQUENCE upstream.quarantine_id_seq IS 'Where quarantine.id comes from.';

-- Makes the partitions of the days from first_day to last_day that are missing, and tells how many it made.
-- SECURITY DEFINER: the worker's role inserts and selects, and owns nothing.
-- ATTACH takes a lock that lets inserts into the other days go on; CREATE TABLE … PARTITION OF would stop them.
CREATE OR REPLACE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
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
        -- LIKE leaves these behind.
        EXECUTE format(
            'ALTER TABLE upstream.%I ALTER COLUMN registration_token SET STATISTICS 0, '
            'ALTER COLUMN data_raw SET STATISTICS 0, ALTER COLUMN extra SET STATISTICS 0', name);
        EXECUTE format('COMMENT ON TABLE upstream.%I IS %L', name, 'Messages received on ' || day || ' UTC.');
        EXECUTE format(
            'ALTER TABLE upstream.messages ATTACH PARTITION upstream.%I FOR VALUES FROM (%L) TO (%L)',
            name, day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

-- The functions below delete what is too old to be kept. They are SECURITY DEFINER, for the worker's role may delete
-- neither messages nor what the ledger knows; each has a floor of its own under what it may be asked for, and one
-- advisory lock, held to the transaction's end, lets one worker at a time do it, behind a pooler too.

-- Drops the partition of one UTC day.
--
-- Ingest waits 50 ms for it at most. DROP TABLE needs messages for itself for a moment, and whoever comes while it waits
-- for that queues behind it. The partition comes first, with a wait that is felt only by those who read this very day and
-- that is long enough for an autovacuum to give way (deadlock_timeout: 1 s). DETACH … CONCURRENTLY is no way: it can't
-- run inside a function, so the worker would have to own the table, and broken off it leaves a day that is half there.
--
-- With the partition locked nobody is storing a message of this day, so no delivery of it can appear unseen.
CREATE FUNCTION upstream.drop_partition(
    day date, OUT outcome text, OUT waiting bigint, OUT dead bigint
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 1500 AS $$
DECLARE
    name name := 'messages_' || to_char(day, 'YYYYMMDD');
    since timestamptz := day::timestamp AT TIME ZONE 'UTC';
    until timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
    IF day IS NULL OR until > now() - interval '1 day' THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that ended less than a day ago' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        outcome := 'busy';
        RETURN;
    END IF;
    IF NOT EXISTS (
        SELECT FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'upstream.messages'::regclass AND relname = name
    ) THEN
        outcome := 'absent';
        RETURN;
    END IF;
    -- One statement, one snapshot: a delivery that becomes a dead letter meanwhile is seen as one of them.
    SELECT
        (SELECT count(*) FROM upstream.deliveries WHERE received_at >= since AND received_at < until),
        (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= since AND received_at < until)
    INTO waiting, dead;
    IF waiting + dead = 0 THEN
        EXECUTE format('LOCK TABLE upstream.%I IN ACCESS EXCLUSIVE MODE', name);
        SELECT
            (SELECT count(*) FROM upstream.deliveries WHERE received_at >= since AND received_at < until),
            (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= since AND received_at < until)
        INTO waiting, dead;
    END IF;
    IF waiting + dead > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '50', true);
    EXECUTE format('DROP TABLE upstream.%I', name);
    outcome := 'dropped';
EXCEPTION
    -- Caught, it is not an error in PostgreSQL's log each time a report reads the table.
    WHEN lock_not_available THEN
        outcome := 'locked';
END
$$;
REVOKE ALL ON FUNCTION upstream.drop_partition(date) FROM PUBLIC;
COMMENT ON FUNCTION upstream.drop_partition(date) IS 'Drops one day of messages. Outcome: dropped; absent; pending, with the counts of deliveries and dead letters that still need it; locked, somebody reads the table; busy, another worker is at it.';

-- Forgets what the ledger knew before a time, in some of its blocks. Gives the number of rows, or null where another
-- worker is at it.
--
-- A day whose bodies are still there is left out: a copy that comes again would be stored beside them.
CREATE FUNCTION upstream.purge_message_ids(before timestamptz, first_block bigint, blocks integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_row tid := format('(%s,0)', first_block);
    end_row tid := format('(%s,0)', first_block + blocks);
    kept date[];
    deleted integer;
BEGIN
    IF before IS NULL OR before > now() - interval '28 days' THEN
        RAISE EXCEPTION 'upstream.purge_message_ids forgets nothing younger than 28 days: a server may send it again'
            USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(to_date(right(relname, 8), 'YYYYMMDD')), '{}') INTO kept
    FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'upstream.messages'::regclass AND relname ~ '^messages_[0-9]{8}$';
    DELETE FROM upstream.message_ids
    WHERE ctid >= first_row AND ctid < end_row AND received_at < before
        AND (received_at AT TIME ZONE 'UTC')::date <> ALL (kept);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_message_ids(timestamptz, bigint, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_message_ids(timestamptz, bigint, integer) IS 'Deletes ledger rows from before a time, 28 days ago at the latest, in some blocks of the table, except those of days whose partition is still there. Null where another worker is at it.';

-- The time is asked again outside: a copy that comes meanwhile makes the row young.
CREATE FUNCTION upstream.purge_conflicts(before timestamptz, most integer) RETURNS integer
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
REVOKE ALL ON FUNCTION upstream.purge_conflicts(timestamptz, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_conflicts(timestamptz, integer) IS 'Deletes conflicts that were last seen before a time, a day ago at the latest: most of them at once. Null where another worker is at it.';

CREATE FUNCTION upstream.purge_quarantine(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF before IS NULL OR before > now() - interval '1 day' THEN
        RAISE EXCEPTION 'upstream.purge_quarantine deletes nothing younger than a day' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.quarantine
    WHERE last_seen_at < before AND ctid IN (
        SELECT ctid FROM upstream.quarantine WHERE received_at < before AND last_seen_at < before LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_quarantine(timestamptz, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_quarantine(timestamptz, integer) IS 'Deletes quarantined stanzas that were last seen before a time, a day ago at the latest: most of them at once. Null where another worker is at it.';

-- migrate:down
DROP FUNCTION upstream.purge_quarantine(timestamptz, integer);
DROP FUNCTION upstream.purge_conflicts(timestamptz, integer);
DROP FUNCTION upstream.purge_message_ids(timestamptz, bigint, integer);
DROP FUNCTION upstream.drop_partition(date);
DROP TABLE upstream.retention_runs;
-- Makes the partitions of the days from first_day to last_day that are missing, and tells how many it made.
-- SECURITY DEFINER: the worker's role inserts and selects, and owns nothing.
-- ATTACH takes a lock that lets inserts into the other days go on; CREATE TABLE … PARTITION OF would stop them.
CREATE OR REPLACE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
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
ALTER TABLE upstream.dead_letters ALTER COLUMN last_error SET STATISTICS -1;
ALTER TABLE upstream.deliveries ALTER COLUMN last_error SET STATISTICS -1;
ALTER TABLE upstream.quarantine ALTER COLUMN stanza SET STATISTICS -1;
ALTER TABLE upstream.conflicts
    ALTER COLUMN registration_token SET STATISTICS -1,
    ALTER COLUMN data_raw SET STATISTICS -1,
    ALTER COLUMN extra SET STATISTICS -1;
ALTER TABLE upstream.messages
    ALTER COLUMN registration_token SET STATISTICS -1,
    ALTER COLUMN data_raw SET STATISTICS -1,
    ALTER COLUMN extra SET STATISTICS -1;
ALTER TABLE upstream.message_ids RESET (autovacuum_vacuum_scale_factor);
CREATE INDEX message_ids_received_at_idx ON upstream.message_ids USING brin (received_at);

"""#),
        Migration(fileName: "0005_conflict_release.sql", text: #"""
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

"""#),
        Migration(fileName: "0006_handler_claims.sql", text: #"""
-- migrate:up
ALTER TABLE upstream.handlers ADD COLUMN seen_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN upstream.handlers.seen_at IS 'When a worker that runs it was last seen, to half a minute.';

-- migrate:down
ALTER TABLE upstream.handlers DROP COLUMN seen_at;

"""#),
        Migration(fileName: "0007_released_conflicts.sql", text: #"""
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

"""#),
        Migration(fileName: "0008_durable_commits.sql", text: #"""
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

"""#),
        Migration(fileName: "0009_retention_policy.sql", text: #"""
-- migrate:up
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

-- What counts is what is attached, never a name: a table of a day's name that is detached takes no inserts. It is left
-- alone, for whoever detached it has a use for it, and the day's partition gets another name.
--
-- SECURITY DEFINER: the worker's role inserts and selects, and owns nothing.
-- ATTACH takes a lock that lets inserts into the other days go on; CREATE TABLE … PARTITION OF would stop them.
CREATE OR REPLACE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
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
COMMENT ON FUNCTION upstream.ensure_partitions(date, date) IS 'Makes the missing partitions of messages for these UTC days, of the years 2000 to 2100, and returns their number. Where a day''s name is taken by a relation that is not attached, the partition is called messages_YYYYMMDD_1.';

CREATE TABLE upstream.retention_policy (
    messages interval NOT NULL,
    dedupe_window interval NOT NULL,
    dead_letters interval NOT NULL,
    attempts interval NOT NULL,
    set_by text NOT NULL DEFAULT session_user,
    set_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT retention_policy_messages_check CHECK (messages BETWEEN '1 day' AND '36500 days'),
    CONSTRAINT retention_policy_dedupe_window_check
        CHECK (dedupe_window BETWEEN '28 days' AND '36500 days' AND dedupe_window >= messages),
    CONSTRAINT retention_policy_dead_letters_check CHECK (dead_letters BETWEEN '1 day' AND '36500 days'),
    CONSTRAINT retention_policy_attempts_check CHECK (attempts BETWEEN '0' AND '36500 days')
);
CREATE UNIQUE INDEX retention_policy_one_row ON upstream.retention_policy ((true));
COMMENT ON TABLE upstream.retention_policy IS 'How long what is kept: one row, which the functions that delete enforce by the database''s clock; without it they delete nothing. A worker''s start makes a time longer, never shorter; `partitions policy --apply` sets it.';
COMMENT ON COLUMN upstream.retention_policy.messages IS 'How long messages, conflicts and quarantined stanzas are kept.';
COMMENT ON COLUMN upstream.retention_policy.dedupe_window IS 'How long message_ids knows a message.';
COMMENT ON COLUMN upstream.retention_policy.dead_letters IS 'How long dead letters are kept, with the messages they are about.';
COMMENT ON COLUMN upstream.retention_policy.attempts IS 'How long a record of attempts is kept; 0 for none. Nothing is recorded yet.';
COMMENT ON COLUMN upstream.retention_policy.set_by IS 'The role that set it last.';
COMMENT ON COLUMN upstream.retention_policy.set_at IS 'When it was set last.';

-- What a worker may do to the policy. Gives the row where it was made or changed.
CREATE FUNCTION upstream.raise_retention(
    keep_messages interval, keep_ids interval, keep_dead_letters interval, keep_attempts interval
) RETURNS SETOF upstream.retention_policy
LANGUAGE sql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO upstream.retention_policy AS known (messages, dedupe_window, dead_letters, attempts)
    VALUES (keep_messages, keep_ids, keep_dead_letters, keep_attempts)
    ON CONFLICT ((true)) DO UPDATE SET
        messages = greatest(known.messages, excluded.messages),
        dedupe_window = greatest(known.dedupe_window, excluded.dedupe_window),
        dead_letters = greatest(known.dead_letters, excluded.dead_letters),
        attempts = greatest(known.attempts, excluded.attempts),
        set_by = excluded.set_by,
        set_at = excluded.set_at
    WHERE known.messages < excluded.messages OR known.dedupe_window < excluded.dedupe_window
        OR known.dead_letters < excluded.dead_letters OR known.attempts < excluded.attempts
    RETURNING *
$$;
REVOKE ALL ON FUNCTION upstream.raise_retention(interval, interval, interval, interval) FROM PUBLIC;
COMMENT ON FUNCTION upstream.raise_retention(interval, interval, interval, interval) IS 'Sets the retention policy where there is none, and makes what it keeps for a shorter time longer; gives the row where that changed something. What a worker calls at its start.';

-- With the caller's rights: only who may write the table, its owner, makes a time shorter.
CREATE FUNCTION upstream.set_retention(
    keep_messages interval, keep_ids interval, keep_dead_letters interval, keep_attempts interval
) RETURNS SETOF upstream.retention_policy
LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO upstream.retention_policy (messages, dedupe_window, dead_letters, attempts)
    VALUES (keep_messages, keep_ids, keep_dead_letters, keep_attempts)
    ON CONFLICT ((true)) DO UPDATE SET
        messages = excluded.messages,
        dedupe_window = excluded.dedupe_window,
        dead_letters = excluded.dead_letters,
        attempts = excluded.attempts,
        set_by = excluded.set_by,
        set_at = excluded.set_at
    RETURNING *
$$;
REVOKE ALL ON FUNCTION upstream.set_retention(interval, interval, interval, interval) FROM PUBLIC;
COMMENT ON FUNCTION upstream.set_retention(interval, interval, interval, interval) IS 'Sets the retention policy, to shorter times as well: `partitions policy --apply`. Needs the rights of the tables'' owner.';

-- The one place where "too old" is judged: by this server's clock, and by the policy, which nobody can change before the
-- caller's transaction has ended.
CREATE FUNCTION upstream.retention_end(what text) RETURNS timestamptz
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
    END;
END
$$;
REVOKE ALL ON FUNCTION upstream.retention_end(text) FROM PUBLIC;
COMMENT ON FUNCTION upstream.retention_end(text) IS 'What is older than this is too old, by the policy and by this server''s clock. For the functions that delete.';

-- The bodies that dead letters need when their day goes.
CREATE TABLE upstream.dead_messages (
    LIKE upstream.messages INCLUDING COMMENTS,
    CONSTRAINT dead_messages_pkey PRIMARY KEY (message_key, received_at)
);
ALTER TABLE upstream.dead_messages
    ALTER COLUMN registration_token SET STATISTICS 0,
    ALTER COLUMN data_raw SET STATISTICS 0,
    ALTER COLUMN extra SET STATISTICS 0;
CREATE INDEX dead_messages_message_id_idx ON upstream.dead_messages USING hash (message_id);
CREATE INDEX dead_messages_device_key_idx ON upstream.dead_messages (device_key);
COMMENT ON TABLE upstream.dead_messages IS 'Messages whose day has been dropped, kept for their dead letters: a row goes with the first run of retention after its last dead letter, and the delivery of one that was retried.';

CREATE INDEX dead_letters_died_at_idx ON upstream.dead_letters (died_at);

-- What a delivery is about, wherever it is kept.
CREATE OR REPLACE FUNCTION upstream.message_of(key uuid, arrival timestamptz) RETURNS SETOF upstream.messages
LANGUAGE sql STABLE ROWS 1 AS $$
    (SELECT
        message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from, received_at
    FROM upstream.messages WHERE messages.received_at = arrival AND messages.message_key = key)
    UNION ALL
    (SELECT
        message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from, received_at
    FROM upstream.dead_messages WHERE dead_messages.message_key = key AND dead_messages.received_at = arrival)
    UNION ALL
    (SELECT
        upstream.release_key(message_key, fingerprint), sender_id, message_id, registration_token, device_key, category,
        data, data_raw, extra, message_type, stanza_from, received_at
    FROM upstream.conflicts
    WHERE upstream.release_key(message_key, fingerprint) = key AND released_at IS NOT NULL)
    LIMIT 1
$$;
COMMENT ON FUNCTION upstream.message_of(uuid, timestamptz) IS 'The message of a delivery: a row of messages, one that is kept for its dead letters, or a released conflict as one.';

-- Copies a part of what drop_partition would have to copy while it holds the table.
CREATE FUNCTION upstream.keep_dead_messages(day date, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    kept integer;
BEGIN
    IF day IS NULL OR (day + 1)::timestamptz > upstream.retention_end('messages') THEN
        RAISE EXCEPTION 'upstream.keep_dead_messages leaves what the retention policy keeps where it is'
            USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    INSERT INTO upstream.dead_messages (
        message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from, received_at
    )
    SELECT
        m.message_key, m.sender_id, m.message_id, m.registration_token, m.device_key, m.category, m.data, m.data_raw,
        m.extra, m.message_type, m.stanza_from, m.received_at
    FROM upstream.partitions() AS p
    JOIN upstream.dead_letters AS d ON d.received_at >= p.since AND d.received_at < p.until
    JOIN upstream.messages AS m ON m.received_at = d.received_at AND m.message_key = d.message_key
    WHERE p.since < (day + 1)::timestamptz AND p.until > day::timestamptz
        AND NOT EXISTS (
            SELECT FROM upstream.dead_messages AS k
            WHERE k.message_key = d.message_key AND k.received_at = d.received_at)
    LIMIT most
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS kept = ROW_COUNT;
    RETURN kept;
END
$$;
REVOKE ALL ON FUNCTION upstream.keep_dead_messages(date, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.keep_dead_messages(date, integer) IS 'Copies the messages that dead letters of a day need into dead_messages, most of them at once, so that dropping the day has little to do. Null where another worker is at it.';

-- A delivery needs its day, unless its message is in dead_messages already. A dead letter does not: what it needs is
-- copied. With the partition locked nobody is storing a message of this day, so no delivery of it can appear unseen; and
-- one statement, one snapshot: what is retried or dies meanwhile is seen as one or the other, and has its message either way.
CREATE OR REPLACE FUNCTION upstream.drop_partition(
    day date, OUT outcome text, OUT waiting bigint, OUT dead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = 1500 SET timezone = 'UTC' AS $$
DECLARE
    old_end timestamptz;
    target record;
BEGIN
    old_end := upstream.retention_end('messages');
    IF day IS NULL OR (day + 1)::timestamptz > old_end THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that the retention policy keeps' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        outcome := 'busy';
        RETURN;
    END IF;
    SELECT p.since, p.until, format('%I.%I', n.nspname, c.relname) AS title INTO target
    FROM upstream.partitions() AS p JOIN pg_class AS c ON c.oid = p.relation JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE p.since < (day + 1)::timestamptz AND p.until > day::timestamptz AND NOT p.is_detaching
    ORDER BY p.since LIMIT 1;
    IF NOT FOUND THEN
        outcome := 'absent';
        RETURN;
    END IF;
    -- It may hold more than a day.
    IF target.until > old_end THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that the retention policy keeps' USING ERRCODE = '22023';
    END IF;
    SELECT
        (SELECT count(*) FROM upstream.deliveries AS d
        WHERE d.received_at >= target.since AND d.received_at < target.until AND NOT EXISTS (
            SELECT FROM upstream.dead_messages AS k
            WHERE k.message_key = d.message_key AND k.received_at = d.received_at)),
        (SELECT count(*) FROM upstream.dead_letters AS d
        WHERE d.received_at >= target.since AND d.received_at < target.until)
    INTO waiting, dead;
    IF waiting > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', target.title);
    EXECUTE format($copy$
        WITH copied AS (
            INSERT INTO upstream.dead_messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                message_type, stanza_from, received_at
            )
            SELECT
                message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                message_type, stanza_from, received_at
            FROM %s AS m
            WHERE (m.received_at, m.message_key) IN (
                SELECT received_at, message_key FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2)
            ON CONFLICT DO NOTHING
        )
        SELECT
            (SELECT count(*) FROM upstream.deliveries AS d
            WHERE d.received_at >= $1 AND d.received_at < $2 AND NOT EXISTS (
                SELECT FROM upstream.dead_messages AS k
                WHERE k.message_key = d.message_key AND k.received_at = d.received_at)),
            (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2)
        $copy$, target.title) INTO waiting, dead USING target.since, target.until;
    IF waiting > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '50', true);
    EXECUTE format('DROP TABLE %s', target.title);
    outcome := 'dropped';
EXCEPTION
    -- Caught, it is not an error in PostgreSQL's log each time a report reads the table.
    WHEN lock_not_available THEN
        outcome := 'locked';
END
$$;
COMMENT ON FUNCTION upstream.drop_partition(date) IS 'Drops the partition that holds a day the retention policy keeps no longer; messages that dead letters need go to dead_messages. Outcome: dropped, with the count of those dead letters; absent; pending, with the count of deliveries that still need it; locked, somebody reads the table; busy, another worker is at it.';

-- Forgets what the ledger knew, in some of its blocks. Gives the number of rows, or null where another worker is at it.
--
-- What has a body somewhere is left out: a copy that comes again would be stored beside it.
DROP FUNCTION upstream.purge_message_ids(timestamptz, bigint, integer);
CREATE FUNCTION upstream.purge_message_ids(first_block bigint, blocks integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_end timestamptz := upstream.retention_end('dedupe_window');
    first_row tid := format('(%s,0)', first_block);
    end_row tid := format('(%s,0)', first_block + blocks);
    kept tstzmultirange;
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(range_agg(tstzrange(p.since, p.until)), '{}') INTO kept
    FROM upstream.partitions() AS p WHERE p.since IS NOT NULL;
    DELETE FROM upstream.message_ids AS known
    WHERE ctid >= first_row AND ctid < end_row AND received_at < old_end
        AND NOT received_at <@ kept
        AND NOT EXISTS (SELECT FROM upstream.dead_messages AS k WHERE k.message_key = known.message_key);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_message_ids(bigint, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_message_ids(bigint, integer) IS 'Deletes ledger rows past retention_policy.dedupe_window in some blocks of the table, except where the message, or its day, is still there. Null where another worker is at it.';

-- The time is asked again outside: a copy that comes meanwhile makes the row young. A released conflict is what its
-- deliveries and dead letters are loaded from, and stays for as long as there are any.
DROP FUNCTION upstream.purge_conflicts(timestamptz, integer);
CREATE FUNCTION upstream.purge_conflicts(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_end timestamptz := upstream.retention_end('messages');
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.conflicts
    WHERE last_seen_at < old_end AND ctid IN (
        SELECT ctid FROM upstream.conflicts AS c
        WHERE received_at < old_end AND last_seen_at < old_end AND (
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
REVOKE ALL ON FUNCTION upstream.purge_conflicts(integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_conflicts(integer) IS 'Deletes conflicts last seen before retention_policy.messages ago, except released ones that deliveries or dead letters still need: most of them at once. Null where another worker is at it.';

DROP FUNCTION upstream.purge_quarantine(timestamptz, integer);
CREATE FUNCTION upstream.purge_quarantine(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_end timestamptz := upstream.retention_end('messages');
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.quarantine
    WHERE last_seen_at < old_end AND ctid IN (
        SELECT ctid FROM upstream.quarantine WHERE received_at < old_end AND last_seen_at < old_end LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_quarantine(integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_quarantine(integer) IS 'Deletes quarantined stanzas last seen before retention_policy.messages ago: most of them at once. Null where another worker is at it.';

-- The time is asked again outside: one that dies again meanwhile is young.
CREATE FUNCTION upstream.purge_dead_letters(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_end timestamptz := upstream.retention_end('dead_letters');
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.dead_letters
    WHERE died_at < old_end AND ctid = ANY (ARRAY(
        SELECT ctid FROM upstream.dead_letters WHERE died_at < old_end ORDER BY died_at LIMIT most FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_dead_letters(integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_dead_letters(integer) IS 'Deletes dead letters that died before retention_policy.dead_letters ago: most of them at once. Null where another worker is at it.';

-- One statement, one snapshot: a dead letter that is retried meanwhile, or a delivery that dies, is seen as one or the other.
CREATE FUNCTION upstream.purge_dead_messages(first_block bigint, blocks integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_row tid := format('(%s,0)', first_block);
    end_row tid := format('(%s,0)', first_block + blocks);
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.dead_messages AS k
    WHERE ctid >= first_row AND ctid < end_row
        AND NOT EXISTS (
            SELECT FROM upstream.deliveries AS d
            WHERE d.message_key = k.message_key AND d.received_at = k.received_at)
        AND NOT EXISTS (
            SELECT FROM upstream.dead_letters AS d
            WHERE d.message_key = k.message_key AND d.received_at = k.received_at);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_dead_messages(bigint, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_dead_messages(bigint, integer) IS 'Deletes messages that no dead letter and no delivery needs any more, in some blocks of the table. Null where another worker is at it.';

ALTER TABLE upstream.retention_runs ADD COLUMN dead_letters_deleted bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN upstream.retention_runs.dead_letters_deleted IS 'Dead letters that it deleted for their age.';
COMMENT ON COLUMN upstream.retention_runs.started_at IS 'When it began, by the database''s clock.';
COMMENT ON COLUMN upstream.retention_runs.partitions_held IS 'Days that are too old and that it kept, for deliveries need them.';
COMMENT ON TABLE upstream.dead_letters IS 'Deliveries that gave up, until they are retried, discarded or older than retention_policy.dead_letters.';

-- migrate:down
-- Dead letters have their messages in the days again.
DO $$
DECLARE
    day date;
BEGIN
    FOR day IN SELECT DISTINCT (received_at AT TIME ZONE 'UTC')::date FROM upstream.dead_messages LOOP
        PERFORM upstream.ensure_partitions(day, day);
    END LOOP;
    INSERT INTO upstream.messages SELECT * FROM upstream.dead_messages ON CONFLICT DO NOTHING;
END
$$;
DROP FUNCTION upstream.purge_dead_messages(bigint, integer);
DROP FUNCTION upstream.purge_dead_letters(integer);
DROP FUNCTION upstream.purge_quarantine(integer);
DROP FUNCTION upstream.purge_conflicts(integer);
DROP FUNCTION upstream.purge_message_ids(bigint, integer);
DROP FUNCTION upstream.keep_dead_messages(date, integer);
ALTER TABLE upstream.retention_runs DROP COLUMN dead_letters_deleted;
COMMENT ON COLUMN upstream.retention_runs.started_at IS 'When it began, by the clock of whoever ran it: what was too old is judged by it.';
COMMENT ON COLUMN upstream.retention_runs.partitions_held IS 'Days that are too old and that it kept, for deliveries or dead letters need them.';
COMMENT ON TABLE upstream.dead_letters IS 'Deliveries that gave up, until they are retried or discarded.';
DROP INDEX upstream.dead_letters_died_at_idx;
CREATE OR REPLACE FUNCTION upstream.message_of(key uuid, arrival timestamptz) RETURNS SETOF upstream.messages
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

CREATE OR REPLACE FUNCTION upstream.drop_partition(
    day date, OUT outcome text, OUT waiting bigint, OUT dead bigint
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 1500 AS $$
DECLARE
    name name := 'messages_' || to_char(day, 'YYYYMMDD');
    since timestamptz := day::timestamp AT TIME ZONE 'UTC';
    until timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
    IF day IS NULL OR until > now() - interval '1 day' THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that ended less than a day ago' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        outcome := 'busy';
        RETURN;
    END IF;
    IF NOT EXISTS (
        SELECT FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'upstream.messages'::regclass AND relname = name
    ) THEN
        outcome := 'absent';
        RETURN;
    END IF;
    -- One statement, one snapshot: a delivery that becomes a dead letter meanwhile is seen as one of them.
    SELECT
        (SELECT count(*) FROM upstream.deliveries WHERE received_at >= since AND received_at < until),
        (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= since AND received_at < until)
    INTO waiting, dead;
    IF waiting + dead = 0 THEN
        EXECUTE format('LOCK TABLE upstream.%I IN ACCESS EXCLUSIVE MODE', name);
        SELECT
            (SELECT count(*) FROM upstream.deliveries WHERE received_at >= since AND received_at < until),
            (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= since AND received_at < until)
        INTO waiting, dead;
    END IF;
    IF waiting + dead > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '50', true);
    EXECUTE format('DROP TABLE upstream.%I', name);
    outcome := 'dropped';
EXCEPTION
    -- Caught, it is not an error in PostgreSQL's log each time a report reads the table.
    WHEN lock_not_available THEN
        outcome := 'locked';
END
$$;
COMMENT ON FUNCTION upstream.drop_partition(date) IS 'Drops one day of messages. Outcome: dropped; absent; pending, with the counts of deliveries and dead letters that still need it; locked, somebody reads the table; busy, another worker is at it.';

CREATE FUNCTION upstream.purge_message_ids(before timestamptz, first_block bigint, blocks integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_row tid := format('(%s,0)', first_block);
    end_row tid := format('(%s,0)', first_block + blocks);
    kept date[];
    deleted integer;
BEGIN
    IF before IS NULL OR before > now() - interval '28 days' THEN
        RAISE EXCEPTION 'upstream.purge_message_ids forgets nothing younger than 28 days: a server may send it again'
            USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(to_date(right(relname, 8), 'YYYYMMDD')), '{}') INTO kept
    FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'upstream.messages'::regclass AND relname ~ '^messages_[0-9]{8}$';
    DELETE FROM upstream.message_ids
    WHERE ctid >= first_row AND ctid < end_row AND received_at < before
        AND (received_at AT TIME ZONE 'UTC')::date <> ALL (kept);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_message_ids(timestamptz, bigint, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_message_ids(timestamptz, bigint, integer) IS 'Deletes ledger rows from before a time, 28 days ago at the latest, in some blocks of the table, except those of days whose partition is still there. Null where another worker is at it.';

CREATE FUNCTION upstream.purge_conflicts(before timestamptz, most integer) RETURNS integer
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
REVOKE ALL ON FUNCTION upstream.purge_conflicts(timestamptz, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_conflicts(timestamptz, integer) IS 'Deletes conflicts that were last seen before a time, a day ago at the latest, except released ones that deliveries or dead letters still need: most of them at once. Null where another worker is at it.';

CREATE FUNCTION upstream.purge_quarantine(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF before IS NULL OR before > now() - interval '1 day' THEN
        RAISE EXCEPTION 'upstream.purge_quarantine deletes nothing younger than a day' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.quarantine
    WHERE last_seen_at < before AND ctid IN (
        SELECT ctid FROM upstream.quarantine WHERE received_at < before AND last_seen_at < before LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_quarantine(timestamptz, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_quarantine(timestamptz, integer) IS 'Deletes quarantined stanzas that were last seen before a time, a day ago at the latest: most of them at once. Null where another worker is at it.';

DROP TABLE upstream.dead_messages;
DROP FUNCTION upstream.retention_end(text);
DROP FUNCTION upstream.set_retention(interval, interval, interval, interval);
DROP FUNCTION upstream.raise_retention(interval, interval, interval, interval);
DROP TABLE upstream.retention_policy;
CREATE OR REPLACE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
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
        -- LIKE leaves these behind.
        EXECUTE format(
            'ALTER TABLE upstream.%I ALTER COLUMN registration_token SET STATISTICS 0, '
            'ALTER COLUMN data_raw SET STATISTICS 0, ALTER COLUMN extra SET STATISTICS 0', name);
        EXECUTE format('COMMENT ON TABLE upstream.%I IS %L', name, 'Messages received on ' || day || ' UTC.');
        EXECUTE format(
            'ALTER TABLE upstream.messages ATTACH PARTITION upstream.%I FOR VALUES FROM (%L) TO (%L)',
            name, day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
COMMENT ON FUNCTION upstream.ensure_partitions(date, date) IS 'Makes the missing partitions of messages for these UTC days and returns their number.';
DROP FUNCTION upstream.partitions();

"""#),
        Migration(fileName: "0010_handler_workers.sql", text: #"""
-- migrate:up
-- What each worker asks for. A worker that restarts with an older configuration must not end what another still wants.
CREATE TABLE upstream.handler_workers (
    token bigint NOT NULL,
    handler text NOT NULL,
    worker text NOT NULL,
    categories text[] NOT NULL,
    by_device boolean NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    alive_since timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT handler_workers_pkey PRIMARY KEY (token, handler),
    CONSTRAINT handler_workers_handler_fkey FOREIGN KEY (handler) REFERENCES upstream.handlers ON DELETE CASCADE
);
CREATE INDEX handler_workers_handler_idx ON upstream.handler_workers (handler);
COMMENT ON TABLE upstream.handler_workers IS 'What each worker asks for, by handler; upstream.subscriptions is the union over the workers that run the handler.';
COMMENT ON COLUMN upstream.handler_workers.token IS 'Names the process: the fencing token of the rows that it inserts under its own lease.';
COMMENT ON COLUMN upstream.handler_workers.handler IS 'The handler.';
COMMENT ON COLUMN upstream.handler_workers.worker IS 'The process for people: host and process id.';
COMMENT ON COLUMN upstream.handler_workers.categories IS 'The categories it asks for, or * for all.';
COMMENT ON COLUMN upstream.handler_workers.by_device IS 'Whether it takes each device''s messages one at a time, in arrival order.';
COMMENT ON COLUMN upstream.handler_workers.started_at IS 'When it registered.';
COMMENT ON COLUMN upstream.handler_workers.alive_since IS 'Since when its heartbeats have come without a gap: after an outage nobody is in a position to judge others.';
COMMENT ON COLUMN upstream.handler_workers.heartbeat_at IS 'When it was last heard of, to half a minute.';

-- Workers of the version before this one say nothing: their subscriptions count as if one worker asked for all of them,
-- until that would have gone silent.
INSERT INTO upstream.handler_workers (token, handler, worker, categories, by_device)
SELECT 0, handler, 'a worker of an earlier version', array_agg(category ORDER BY category), bool_or(by_device)
FROM upstream.subscriptions GROUP BY handler;

-- A row counts until it has been silent for ten minutes and a worker of the same handler, heard of without a gap for as
-- long, can tell: a database that was away for a while must not make everybody look dead to the first who comes back.
CREATE FUNCTION upstream.derive_subscriptions(names text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- One at a time for each handler: what another has asked for meanwhile is seen by the statements below.
    PERFORM 1 FROM upstream.handlers WHERE name = ANY (names) ORDER BY name FOR NO KEY UPDATE;
    DELETE FROM upstream.handler_workers AS silent
    WHERE silent.handler = ANY (names) AND silent.heartbeat_at < now() - interval '10 minutes' AND EXISTS (
        SELECT FROM upstream.handler_workers AS witness
        WHERE witness.handler = silent.handler AND witness.heartbeat_at > now() - interval '2 minutes'
            AND witness.alive_since <= now() - interval '10 minutes'
    );
    DELETE FROM upstream.subscriptions AS s
    WHERE s.handler = ANY (names)
        AND EXISTS (
            SELECT FROM upstream.handler_workers AS w
            WHERE w.handler = s.handler AND w.heartbeat_at > now() - interval '2 minutes'
        )
        AND NOT EXISTS (
            SELECT FROM upstream.handler_workers AS w WHERE w.handler = s.handler AND s.category = ANY (w.categories)
        );
    INSERT INTO upstream.subscriptions AS known (handler, category, by_device)
    SELECT DISTINCT w.handler, asked.category, (
        SELECT bool_or(by_device) FROM upstream.handler_workers WHERE handler = w.handler
    )
    FROM upstream.handler_workers AS w, unnest(w.categories) AS asked (category)
    WHERE w.handler = ANY (names) ORDER BY 1, 2
    ON CONFLICT (handler, category) DO UPDATE SET by_device = excluded.by_device
        WHERE known.by_device <> excluded.by_device;
END
$$;
COMMENT ON FUNCTION upstream.derive_subscriptions(text[]) IS 'Makes the subscriptions of these handlers what their workers ask for; those of a handler that no worker runs stay.';

CREATE FUNCTION upstream.register_handlers(
    previous bigint, process bigint, who text, names text[], devices boolean[], askers text[], asked text[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO upstream.handlers (name) SELECT * FROM unnest(names) ORDER BY 1
    ON CONFLICT ON CONSTRAINT handlers_pkey DO UPDATE SET seen_at = now();
    DELETE FROM upstream.handler_workers WHERE token IN (previous, process) AND token <> 0;
    INSERT INTO upstream.handler_workers (token, handler, worker, categories, by_device)
    SELECT process, own.handler, who, ARRAY(
        SELECT category FROM unnest(askers, asked) AS pair (handler, category) WHERE pair.handler = own.handler
    ), own.device
    FROM unnest(names, devices) AS own (handler, device);
    PERFORM upstream.derive_subscriptions(names);
END
$$;
COMMENT ON FUNCTION upstream.register_handlers(bigint, bigint, text, text[], boolean[], text[], text[]) IS 'Notes what a worker asks for, in the place of what the same process asked for before, and subscribes its handlers.';

CREATE FUNCTION upstream.keep_handlers(process bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[] := ARRAY(SELECT handler FROM upstream.handler_workers WHERE token = process);
BEGIN
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
COMMENT ON FUNCTION upstream.keep_handlers(bigint) IS 'A worker''s heartbeat; gives the number of handlers it is known to run.';

CREATE FUNCTION upstream.withdraw_handlers(process bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[];
BEGIN
    WITH gone AS (
        DELETE FROM upstream.handler_workers WHERE token = process RETURNING handler
    )
    SELECT coalesce(array_agg(handler), '{}') INTO names FROM gone;
    PERFORM upstream.derive_subscriptions(names);
END
$$;
COMMENT ON FUNCTION upstream.withdraw_handlers(bigint) IS 'A worker stops in order: what it alone asked for ends where another runs the handler, and stays where none does.';

-- Claims go on behind the last one, so that what was claimed, and what is left of it as long as an old snapshot is open,
-- is not read again; ties are told apart by the other columns.
DROP INDEX upstream.deliveries_claim_idx;
CREATE INDEX deliveries_claim_idx ON upstream.deliveries (handler, next_attempt_at, received_at, message_key);

-- A row is inserted under the holder's lease only where the holder asks for its category: else it would lie leased to a
-- worker that knows nothing of it. The rest is as in 0008.
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
    ), known AS MATERIALIZED (
        -- With what the holder asks for, if it has said so: it knows nothing of categories that only others ask for.
        SELECT s.*, handler = ANY (offered) AS is_offered, handler = ANY (locals) AS is_local, (
            SELECT w.categories FROM upstream.handler_workers AS w WHERE w.token = fence AND w.handler = s.handler
        ) AS asked
        FROM upstream.subscriptions AS s
    ), wanted AS MATERIALIZED (
        SELECT
            s.handler, s.by_device, s.is_offered, s.is_local, input.*,
            s.asked IS NULL OR input.category = ANY (s.asked) OR '*' = ANY (s.asked) AS is_asked
        FROM known AS s
        JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
            ON s.category = input.category OR s.category = '*'
        WHERE (input.key IN (SELECT message_key FROM fresh)) IS TRUE
    ), queue AS (
        INSERT INTO upstream.deliveries (
            handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
        )
        SELECT
            handler, key, received_at, now(), CASE WHEN by_device THEN device END,
            CASE WHEN is_offered AND is_asked THEN holder END, CASE WHEN is_offered AND is_asked THEN fence ELSE 0 END,
            CASE WHEN is_offered AND is_asked THEN now() + lease_length * interval '1 microsecond' END
        FROM wanted
        ON CONFLICT DO NOTHING
    )
    SELECT
        (SELECT count(*) FROM fresh),
        (SELECT count(pg_notify('upstream_deliveries', ''))
        FROM (SELECT FROM wanted WHERE NOT (is_local AND is_asked) LIMIT 1) AS other)
    INTO stored, announced;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;
COMMENT ON FUNCTION upstream.store_messages IS 'Stores the new ones of a batch of messages with their deliveries, leased to holder where offered names the handler and holder asks for the category; a refused batch stores nothing and is not logged.';

ALTER TABLE upstream.replays ADD COLUMN file text;
COMMENT ON COLUMN upstream.replays.file IS 'Device and inode of the output file, and of the one of an earlier run that it replaces: what this replay may go on with, or replace.';

-- migrate:down
ALTER TABLE upstream.replays DROP COLUMN file;
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
COMMENT ON FUNCTION upstream.store_messages IS 'Stores the new ones of a batch of messages with their deliveries, leased to holder where offered names the handler; a refused batch stores nothing and is not logged.';
DROP INDEX upstream.deliveries_claim_idx;
CREATE INDEX deliveries_claim_idx ON upstream.deliveries (handler, next_attempt_at);
DROP FUNCTION upstream.withdraw_handlers(bigint);
DROP FUNCTION upstream.keep_handlers(bigint);
DROP FUNCTION upstream.register_handlers(bigint, bigint, text, text[], boolean[], text[], text[]);
DROP FUNCTION upstream.derive_subscriptions(text[]);
DROP TABLE upstream.handler_workers;

"""#),
        Migration(fileName: "0011_store_batch.sql", text: #"""
-- migrate:up
-- One batch of the receive path, as upstream.store_messages, at about 0.6 of its CPU (Benchmarks/Store measures each step).
-- Nearly every batch holds new messages alone, so that is tried first, as plainly as PostgreSQL can do it:
--
-- * the ledger by a plain INSERT: no speculative insertion, nothing returned; a known key is a unique violation, caught
--   here, and only then is the batch sorted out row by row;
-- * SELECT unnest(a), unnest(b) … in the target list: no function scan and no tuple store under it;
-- * the ledger's rows in the order of their keys, so that two writers never deadlock; the bodies in the order of their
--   arrival, so that the indexes that begin with a time grow at their right edge;
-- * a column that is null in the whole batch is an empty array (unnest side by side fills up with nulls); where sender and
--   stanza_from are the same in the whole batch they are one value each, only_sender and only_from, and their arrays empty;
-- * nothing is queued where no handler is subscribed.
--
-- What is caught at the end and why data comes as text: see upstream.store_messages. IS TRUE: likewise, a hashed subplan.
CREATE FUNCTION upstream.store_batch(
    ledger_keys uuid[], ledger_fingerprints uuid[], ledger_times timestamptz[],
    keys uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    only_sender text, only_from text,
    holder text, fence bigint, lease_length bigint, offered text[], locals text[],
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The keys that are new; null where all are.
    fresh uuid[];
    is_elsewhere boolean;
BEGIN
    -- An ack promises that neither a crash nor a failover loses it, so the commit waits for the disk and for the standbys
    -- that the server waits for, whatever its default, or the role's, is. remote_apply promises more and is kept.
    PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
    BEGIN
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times);
        stored := cardinality(ledger_keys);
    EXCEPTION
        WHEN unique_violation THEN
            WITH inserted AS (
                INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
                SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times)
                ON CONFLICT DO NOTHING
                RETURNING message_key
            )
            SELECT coalesce(array_agg(message_key), '{}') FROM inserted INTO fresh;
            stored := cardinality(fresh);
    END;
    IF stored = 0 THEN
        RETURN;
    END IF;
    IF fresh IS NULL AND only_sender IS NOT NULL THEN
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            unnest(keys), unnest(times), only_sender, unnest(ids), unnest(tokens), unnest(devices), unnest(categories),
            unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), only_from;
    ELSE
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            key, received_at, coalesce(sender, only_sender), id, token, device, category, data::json, raw, extra, type,
            coalesce(stanza_from, only_from)
        FROM unnest(keys, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms)
            AS input (key, received_at, sender, id, token, device, category, data, raw, extra, type, stanza_from)
        WHERE fresh IS NULL OR (key IN (SELECT unnest(fresh))) IS TRUE;
    END IF;
    IF EXISTS (SELECT FROM upstream.subscriptions) THEN
        -- With what the holder asks for, if it has said so: a row is leased to it only where it asks for the category, else it
        -- would lie with a worker that knows nothing of it.
        WITH known AS MATERIALIZED (
            SELECT s.*, handler = ANY (offered) AS is_offered, handler = ANY (locals) AS is_local, (
                SELECT w.categories FROM upstream.handler_workers AS w WHERE w.token = fence AND w.handler = s.handler
            ) AS asked
            FROM upstream.subscriptions AS s
        ), wanted AS MATERIALIZED (
            SELECT
                s.handler, s.by_device, s.is_offered, s.is_local, input.*,
                s.asked IS NULL OR input.category = ANY (s.asked) OR '*' = ANY (s.asked) AS is_asked
            FROM known AS s
            JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
                ON s.category = input.category OR s.category = '*'
            WHERE fresh IS NULL OR (input.key IN (SELECT unnest(fresh))) IS TRUE
        ), queue AS (
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
            )
            SELECT
                handler, key, received_at, now(), CASE WHEN by_device THEN device END,
                CASE WHEN is_offered AND is_asked THEN holder END, CASE WHEN is_offered AND is_asked THEN fence ELSE 0 END,
                CASE WHEN is_offered AND is_asked THEN now() + lease_length * interval '1 microsecond' END
            FROM wanted
            ON CONFLICT DO NOTHING
        )
        SELECT EXISTS (SELECT FROM wanted WHERE NOT (is_local AND is_asked)) INTO is_elsewhere;
        IF is_elsewhere THEN
            PERFORM pg_notify('upstream_deliveries', '');
        END IF;
    END IF;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        stored := NULL;
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;
COMMENT ON FUNCTION upstream.store_batch IS 'Stores the new ones of a batch of messages with their deliveries, leased to holder where offered names the handler and holder asks for the category; a refused batch stores nothing and is not logged.';

COMMENT ON COLUMN upstream.quarantine.digest IS 'SHA-256 over the sender''s address without its resource and the payload, without what servers add on the way; of rows from before 0011, of stanza.';

-- migrate:down
DROP FUNCTION upstream.store_batch;
COMMENT ON COLUMN upstream.quarantine.digest IS 'SHA-256 of stanza.';

"""#),
        Migration(fileName: "0012_delivery_blocks.sql", text: #"""
-- migrate:up
-- Deliveries that the worker which stored the messages has in its memory, and will mostly have completed within
-- milliseconds: a row for a whole batch and handler, where upstream.deliveries takes a row, four index entries and a dead
-- tuple for each message.
--
-- A block is a short form of leased rows of upstream.deliveries, with the same fencing token. It is deleted when all its
-- deliveries are done. Whatever else happens to one of them (a failure, a pause, a slow handler, the holder's death), the
-- block is unpacked into those rows first, less what is done; nothing but that is ever decided on a block.
CREATE TABLE upstream.delivery_blocks (
    token bigint NOT NULL,
    number bigint NOT NULL,
    handler text NOT NULL,
    lease_owner text NOT NULL,
    lease_until timestamptz NOT NULL,
    keys uuid[] NOT NULL,
    times timestamptz[] NOT NULL,
    replay_id uuid,
    CONSTRAINT delivery_blocks_pkey PRIMARY KEY (token, number, handler)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0.01,
    toast.autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_cost_delay = 0
);
-- Keys are hashes: trying to compress them is time lost.
ALTER TABLE upstream.delivery_blocks
    ALTER COLUMN keys SET STORAGE EXTERNAL,
    ALTER COLUMN times SET STORAGE EXTERNAL;
COMMENT ON TABLE upstream.delivery_blocks IS 'Deliveries in the hands of the worker that stored their messages, a batch of one handler in a row; see upstream.unpack_deliveries.';
COMMENT ON COLUMN upstream.delivery_blocks.token IS 'Fencing token of the deliveries: that of the process that holds them.';
COMMENT ON COLUMN upstream.delivery_blocks.number IS 'The process''s number for the batch.';
COMMENT ON COLUMN upstream.delivery_blocks.handler IS 'The handler.';
COMMENT ON COLUMN upstream.delivery_blocks.lease_owner IS 'The worker that holds them.';
COMMENT ON COLUMN upstream.delivery_blocks.lease_until IS 'When the lease ends.';
COMMENT ON COLUMN upstream.delivery_blocks.keys IS 'The messages.';
COMMENT ON COLUMN upstream.delivery_blocks.times IS 'Their received_at, in the order of keys.';
COMMENT ON COLUMN upstream.delivery_blocks.replay_id IS 'The replay that asked for them; null for first deliveries.';

-- Every worker calls what uses this table as soon as it is there, also those of the version before.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_worker') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON upstream.delivery_blocks TO upstream_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_reader') THEN
        GRANT SELECT ON upstream.delivery_blocks TO upstream_reader;
    END IF;
END
$$;

-- A message that was erased meanwhile gets no row, which nobody could deliver.
CREATE FUNCTION upstream.unpack_deliveries(process bigint, name text, numbers bigint[], done uuid[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    settled bigint;
BEGIN
    WITH gone AS (
        DELETE FROM upstream.delivery_blocks
        WHERE token = process AND handler = name AND number = ANY (numbers)
        RETURNING *
    ), held AS MATERIALIZED (
        SELECT gone.*, entry.*, (entry.key IN (SELECT unnest(done))) IS TRUE AS is_done
        FROM gone CROSS JOIN LATERAL unnest(gone.keys, gone.times) AS entry (key, at)
    ), rows AS (
        INSERT INTO upstream.deliveries (
            handler, message_key, received_at, next_attempt_at, lease_owner, lease_token, lease_until, replay_id
        )
        SELECT handler, key, at, now(), lease_owner, token, lease_until, replay_id
        FROM held
        WHERE NOT is_done AND EXISTS (SELECT FROM upstream.message_of(key, at))
        ORDER BY key
        ON CONFLICT DO NOTHING
    )
    SELECT count(*) FROM held WHERE is_done INTO settled;
    RETURN settled;
END
$$;
COMMENT ON FUNCTION upstream.unpack_deliveries(bigint, text, bigint[], uuid[]) IS 'Turns blocks of a process into rows of upstream.deliveries under the same lease, less what is done; gives the number of these.';

-- What is left of workers that died. A message that was erased meanwhile is gone for good.
CREATE FUNCTION upstream.unpack_expired() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM upstream.delivery_blocks WHERE lease_until <= now()) THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM upstream.delivery_blocks WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM upstream.delivery_blocks WHERE lease_until <= now() FOR UPDATE SKIP LOCKED
        ))
        RETURNING *
    ), rows AS (
        INSERT INTO upstream.deliveries (
            handler, message_key, received_at, next_attempt_at, lease_owner, lease_token, lease_until, replay_id
        )
        SELECT handler, key, at, now(), lease_owner, token, lease_until, replay_id
        FROM gone CROSS JOIN LATERAL unnest(gone.keys, gone.times) AS entry (key, at)
        WHERE EXISTS (SELECT FROM upstream.message_of(key, at))
        ORDER BY key, handler
        ON CONFLICT DO NOTHING
        RETURNING 1
    )
    SELECT count(*) FROM rows INTO found;
    IF found > 0 THEN
        PERFORM pg_notify('upstream_deliveries', '');
    END IF;
    RETURN found;
END
$$;
COMMENT ON FUNCTION upstream.unpack_expired() IS 'Turns the blocks whose lease has ended into rows of upstream.deliveries, for others to claim; gives their number.';

-- A delivery needs its day, in a row or in a block, unless its message is in dead_messages already. Stable, so that it sees what
-- the statement sees that asks: a block that is being unpacked is there as one or the other.
CREATE FUNCTION upstream.waiting_deliveries(since timestamptz, until timestamptz) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*)
    FROM (
        SELECT message_key, received_at FROM upstream.deliveries
        WHERE received_at >= since AND received_at < until
        UNION ALL
        SELECT entry.key, entry.at
        FROM upstream.delivery_blocks CROSS JOIN LATERAL unnest(keys, times) AS entry (key, at)
        WHERE entry.at >= since AND entry.at < until
    ) AS d
    WHERE NOT EXISTS (
        SELECT FROM upstream.dead_messages AS k
        WHERE k.message_key = d.message_key AND k.received_at = d.received_at)
$$;
COMMENT ON FUNCTION upstream.waiting_deliveries(timestamptz, timestamptz) IS 'How many deliveries need the messages of a time, in rows and in blocks.';

-- As the one of 0009, and deliveries in blocks count.
CREATE OR REPLACE FUNCTION upstream.drop_partition(
    day date, OUT outcome text, OUT waiting bigint, OUT dead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = 1500 SET timezone = 'UTC' AS $$
DECLARE
    old_end timestamptz;
    target record;
BEGIN
    old_end := upstream.retention_end('messages');
    IF day IS NULL OR (day + 1)::timestamptz > old_end THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that the retention policy keeps' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        outcome := 'busy';
        RETURN;
    END IF;
    SELECT p.since, p.until, format('%I.%I', n.nspname, c.relname) AS title INTO target
    FROM upstream.partitions() AS p JOIN pg_class AS c ON c.oid = p.relation JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE p.since < (day + 1)::timestamptz AND p.until > day::timestamptz AND NOT p.is_detaching
    ORDER BY p.since LIMIT 1;
    IF NOT FOUND THEN
        outcome := 'absent';
        RETURN;
    END IF;
    -- It may hold more than a day.
    IF target.until > old_end THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that the retention policy keeps' USING ERRCODE = '22023';
    END IF;
    SELECT
        upstream.waiting_deliveries(target.since, target.until),
        (SELECT count(*) FROM upstream.dead_letters AS d
        WHERE d.received_at >= target.since AND d.received_at < target.until)
    INTO waiting, dead;
    IF waiting > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', target.title);
    EXECUTE format($copy$
        WITH copied AS (
            INSERT INTO upstream.dead_messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                message_type, stanza_from, received_at
            )
            SELECT
                message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                message_type, stanza_from, received_at
            FROM %s AS m
            WHERE (m.received_at, m.message_key) IN (
                SELECT received_at, message_key FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2)
            ON CONFLICT DO NOTHING
        )
        SELECT
            upstream.waiting_deliveries($1, $2),
            (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2)
        $copy$, target.title) INTO waiting, dead USING target.since, target.until;
    IF waiting > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '50', true);
    EXECUTE format('DROP TABLE %s', target.title);
    outcome := 'dropped';
EXCEPTION
    -- Caught, it is not an error in PostgreSQL's log each time a report reads the table.
    WHEN lock_not_available THEN
        outcome := 'locked';
END
$$;

-- Called by every worker every few seconds, also by those of the version before: theirs take over what is left of ours.
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

-- As the one of 0011, and the deliveries of the handlers in packed are put into a block each, with this number, where the
-- holder asks for them.
CREATE FUNCTION upstream.store_batch(
    ledger_keys uuid[], ledger_fingerprints uuid[], ledger_times timestamptz[],
    keys uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    only_sender text, only_from text,
    holder text, fence bigint, lease_length bigint, offered text[], locals text[], packed text[], block bigint,
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The keys that are new; null where all are.
    fresh uuid[];
    is_elsewhere boolean;
    -- The handlers whose deliveries are in a block already: every message of the batch.
    whole text[] := '{}';
BEGIN
    -- An ack promises that neither a crash nor a failover loses it, so the commit waits for the disk and for the standbys
    -- that the server waits for, whatever its default, or the role's, is. remote_apply promises more and is kept.
    PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
    BEGIN
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times);
        stored := cardinality(ledger_keys);
    EXCEPTION
        WHEN unique_violation THEN
            WITH inserted AS (
                INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
                SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times)
                ON CONFLICT DO NOTHING
                RETURNING message_key
            )
            SELECT coalesce(array_agg(message_key), '{}') FROM inserted INTO fresh;
            stored := cardinality(fresh);
    END;
    IF stored = 0 THEN
        RETURN;
    END IF;
    IF fresh IS NULL AND only_sender IS NOT NULL THEN
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            unnest(keys), unnest(times), only_sender, unnest(ids), unnest(tokens), unnest(devices), unnest(categories),
            unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), only_from;
    ELSE
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            key, received_at, coalesce(sender, only_sender), id, token, device, category, data::json, raw, extra, type,
            coalesce(stanza_from, only_from)
        FROM unnest(keys, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms)
            AS input (key, received_at, sender, id, token, device, category, data, raw, extra, type, stanza_from)
        WHERE fresh IS NULL OR (key IN (SELECT unnest(fresh))) IS TRUE;
    END IF;
    IF fresh IS NULL AND cardinality(packed) > 0 THEN
        -- The usual case at no cost for each message: a handler that takes everything, of a batch that is new throughout.
        WITH block AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, s.handler, holder, now() + lease_length * interval '1 microsecond',
                store_batch.keys, store_batch.times
            FROM upstream.subscriptions AS s
            JOIN upstream.handler_workers AS w ON w.token = fence AND w.handler = s.handler AND '*' = ANY (w.categories)
            WHERE s.handler = ANY (packed) AND s.category = '*' AND NOT s.by_device
            RETURNING handler
        )
        SELECT coalesce(array_agg(handler), '{}') FROM block INTO whole;
    END IF;
    IF EXISTS (SELECT FROM upstream.subscriptions WHERE handler <> ALL (whole)) THEN
        -- With what the holder asks for, if it has said so: a row is leased to it only where it asks for the category, else it
        -- would lie with a worker that knows nothing of it.
        WITH known AS MATERIALIZED (
            SELECT s.*, handler = ANY (offered) AS is_offered, handler = ANY (locals) AS is_local,
                handler = ANY (packed) AND NOT by_device AS is_packed, (
                SELECT w.categories FROM upstream.handler_workers AS w WHERE w.token = fence AND w.handler = s.handler
            ) AS asked
            FROM upstream.subscriptions AS s
            WHERE handler <> ALL (whole)
        ), wanted AS MATERIALIZED (
            SELECT
                s.handler, s.by_device, s.is_offered, s.is_local, s.is_packed AND s.asked IS NOT NULL AS is_packed, input.*,
                s.asked IS NULL OR input.category = ANY (s.asked) OR '*' = ANY (s.asked) AS is_asked
            FROM known AS s
            JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
                ON s.category = input.category OR s.category = '*'
            WHERE fresh IS NULL OR (input.key IN (SELECT unnest(fresh))) IS TRUE
        ), queue AS (
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
            )
            SELECT
                handler, key, received_at, now(), CASE WHEN by_device THEN device END,
                CASE WHEN is_offered AND is_asked THEN holder END, CASE WHEN is_offered AND is_asked THEN fence ELSE 0 END,
                CASE WHEN is_offered AND is_asked THEN now() + lease_length * interval '1 microsecond' END
            FROM wanted
            WHERE NOT (is_packed AND is_asked)
            ON CONFLICT DO NOTHING
        ), blocks AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, handler, holder, now() + lease_length * interval '1 microsecond',
                array_agg(key), array_agg(received_at)
            -- Once each, however many of a handler's subscriptions a message matches.
            FROM (SELECT DISTINCT handler, key, received_at FROM wanted WHERE is_packed AND is_asked) AS chosen
            GROUP BY handler
        )
        SELECT EXISTS (SELECT FROM wanted WHERE NOT (is_local AND is_asked)) INTO is_elsewhere;
        IF is_elsewhere THEN
            PERFORM pg_notify('upstream_deliveries', '');
        END IF;
    END IF;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        stored := NULL;
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;
COMMENT ON FUNCTION upstream.store_batch(
    uuid[], uuid[], timestamptz[], uuid[], timestamptz[], text[], text[], text[], uuid[], text[], text[], text[], text[],
    text[], text[], text, text, text, bigint, bigint, text[], text[], text[], bigint
) IS 'Stores the new ones of a batch of messages with their deliveries, leased to holder where offered names the handler and holder asks for the category, and in a block where packed names it; a refused batch stores nothing and is not logged.';

-- For workers of the version before.
CREATE OR REPLACE FUNCTION upstream.store_batch(
    ledger_keys uuid[], ledger_fingerprints uuid[], ledger_times timestamptz[],
    keys uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    only_sender text, only_from text,
    holder text, fence bigint, lease_length bigint, offered text[], locals text[],
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM upstream.store_batch(
        ledger_keys, ledger_fingerprints, ledger_times, keys, times, senders, ids, tokens, devices, categories, datas, raws,
        extras, types, froms, only_sender, only_from, holder, fence, lease_length, offered, locals, '{}', 0
    )
$$;

-- migrate:down
INSERT INTO upstream.deliveries (
    handler, message_key, received_at, next_attempt_at, lease_owner, lease_token, lease_until, replay_id
)
SELECT handler, key, at, now(), lease_owner, token, lease_until, replay_id
FROM upstream.delivery_blocks CROSS JOIN LATERAL unnest(keys, times) AS entry (key, at)
ON CONFLICT DO NOTHING;
CREATE OR REPLACE FUNCTION upstream.store_batch(
    ledger_keys uuid[], ledger_fingerprints uuid[], ledger_times timestamptz[],
    keys uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    only_sender text, only_from text,
    holder text, fence bigint, lease_length bigint, offered text[], locals text[],
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The keys that are new; null where all are.
    fresh uuid[];
    is_elsewhere boolean;
BEGIN
    -- An ack promises that neither a crash nor a failover loses it, so the commit waits for the disk and for the standbys
    -- that the server waits for, whatever its default, or the role's, is. remote_apply promises more and is kept.
    PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
    BEGIN
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times);
        stored := cardinality(ledger_keys);
    EXCEPTION
        WHEN unique_violation THEN
            WITH inserted AS (
                INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
                SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times)
                ON CONFLICT DO NOTHING
                RETURNING message_key
            )
            SELECT coalesce(array_agg(message_key), '{}') FROM inserted INTO fresh;
            stored := cardinality(fresh);
    END;
    IF stored = 0 THEN
        RETURN;
    END IF;
    IF fresh IS NULL AND only_sender IS NOT NULL THEN
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            unnest(keys), unnest(times), only_sender, unnest(ids), unnest(tokens), unnest(devices), unnest(categories),
            unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), only_from;
    ELSE
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            key, received_at, coalesce(sender, only_sender), id, token, device, category, data::json, raw, extra, type,
            coalesce(stanza_from, only_from)
        FROM unnest(keys, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms)
            AS input (key, received_at, sender, id, token, device, category, data, raw, extra, type, stanza_from)
        WHERE fresh IS NULL OR (key IN (SELECT unnest(fresh))) IS TRUE;
    END IF;
    IF EXISTS (SELECT FROM upstream.subscriptions) THEN
        -- With what the holder asks for, if it has said so: a row is leased to it only where it asks for the category, else it
        -- would lie with a worker that knows nothing of it.
        WITH known AS MATERIALIZED (
            SELECT s.*, handler = ANY (offered) AS is_offered, handler = ANY (locals) AS is_local, (
                SELECT w.categories FROM upstream.handler_workers AS w WHERE w.token = fence AND w.handler = s.handler
            ) AS asked
            FROM upstream.subscriptions AS s
        ), wanted AS MATERIALIZED (
            SELECT
                s.handler, s.by_device, s.is_offered, s.is_local, input.*,
                s.asked IS NULL OR input.category = ANY (s.asked) OR '*' = ANY (s.asked) AS is_asked
            FROM known AS s
            JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
                ON s.category = input.category OR s.category = '*'
            WHERE fresh IS NULL OR (input.key IN (SELECT unnest(fresh))) IS TRUE
        ), queue AS (
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
            )
            SELECT
                handler, key, received_at, now(), CASE WHEN by_device THEN device END,
                CASE WHEN is_offered AND is_asked THEN holder END, CASE WHEN is_offered AND is_asked THEN fence ELSE 0 END,
                CASE WHEN is_offered AND is_asked THEN now() + lease_length * interval '1 microsecond' END
            FROM wanted
            ON CONFLICT DO NOTHING
        )
        SELECT EXISTS (SELECT FROM wanted WHERE NOT (is_local AND is_asked)) INTO is_elsewhere;
        IF is_elsewhere THEN
            PERFORM pg_notify('upstream_deliveries', '');
        END IF;
    END IF;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        stored := NULL;
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;
DROP FUNCTION upstream.store_batch(
    uuid[], uuid[], timestamptz[], uuid[], timestamptz[], text[], text[], text[], uuid[], text[], text[], text[], text[],
    text[], text[], text, text, text, bigint, bigint, text[], text[], text[], bigint
);
CREATE OR REPLACE FUNCTION upstream.keep_handlers(process bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[] := ARRAY(SELECT handler FROM upstream.handler_workers WHERE token = process);
BEGIN
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
DROP FUNCTION upstream.unpack_expired();
DROP FUNCTION upstream.unpack_deliveries(bigint, text, bigint[], uuid[]);
DROP TABLE upstream.delivery_blocks;
CREATE OR REPLACE FUNCTION upstream.drop_partition(
    day date, OUT outcome text, OUT waiting bigint, OUT dead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = 1500 SET timezone = 'UTC' AS $$
DECLARE
    old_end timestamptz;
    target record;
BEGIN
    old_end := upstream.retention_end('messages');
    IF day IS NULL OR (day + 1)::timestamptz > old_end THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that the retention policy keeps' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        outcome := 'busy';
        RETURN;
    END IF;
    SELECT p.since, p.until, format('%I.%I', n.nspname, c.relname) AS title INTO target
    FROM upstream.partitions() AS p JOIN pg_class AS c ON c.oid = p.relation JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE p.since < (day + 1)::timestamptz AND p.until > day::timestamptz AND NOT p.is_detaching
    ORDER BY p.since LIMIT 1;
    IF NOT FOUND THEN
        outcome := 'absent';
        RETURN;
    END IF;
    -- It may hold more than a day.
    IF target.until > old_end THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that the retention policy keeps' USING ERRCODE = '22023';
    END IF;
    SELECT
        (SELECT count(*) FROM upstream.deliveries AS d
        WHERE d.received_at >= target.since AND d.received_at < target.until AND NOT EXISTS (
            SELECT FROM upstream.dead_messages AS k
            WHERE k.message_key = d.message_key AND k.received_at = d.received_at)),
        (SELECT count(*) FROM upstream.dead_letters AS d
        WHERE d.received_at >= target.since AND d.received_at < target.until)
    INTO waiting, dead;
    IF waiting > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', target.title);
    EXECUTE format($copy$
        WITH copied AS (
            INSERT INTO upstream.dead_messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                message_type, stanza_from, received_at
            )
            SELECT
                message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                message_type, stanza_from, received_at
            FROM %s AS m
            WHERE (m.received_at, m.message_key) IN (
                SELECT received_at, message_key FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2)
            ON CONFLICT DO NOTHING
        )
        SELECT
            (SELECT count(*) FROM upstream.deliveries AS d
            WHERE d.received_at >= $1 AND d.received_at < $2 AND NOT EXISTS (
                SELECT FROM upstream.dead_messages AS k
                WHERE k.message_key = d.message_key AND k.received_at = d.received_at)),
            (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2)
        $copy$, target.title) INTO waiting, dead USING target.since, target.until;
    IF waiting > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '50', true);
    EXECUTE format('DROP TABLE %s', target.title);
    outcome := 'dropped';
EXCEPTION
    -- Caught, it is not an error in PostgreSQL's log each time a report reads the table.
    WHEN lock_not_available THEN
        outcome := 'locked';
END
$$;
DROP FUNCTION upstream.waiting_deliveries(timestamptz, timestamptz);

"""#),
        Migration(fileName: "0013_lookup_by_key.sql", text: #"""
-- migrate:up
-- Look-ups by message_id without an index that each insert has to keep. Where ids are unique for a sender, a message's key
-- follows from them, and the ledger knows where a key is; it only has to be known which senders there are. Where they are
-- unique for a device (id_scope device), a Bloom filter for each range of blocks tells which ranges to read: autovacuum
-- makes it when a range is full. That costs inserts something, too (Benchmarks/Store), so there is no
-- such index where no sender needs it.

CREATE TABLE upstream.senders (
    sender_id text NOT NULL,
    id_scope text NOT NULL,
    CONSTRAINT senders_pkey PRIMARY KEY (sender_id, id_scope),
    CONSTRAINT senders_id_scope_check CHECK (id_scope IN ('sender', 'device'))
);
COMMENT ON TABLE upstream.senders IS 'The senders that have messages, with what their keys are derived from; written with their first message. Look-ups by message_id read it.';
COMMENT ON COLUMN upstream.senders.sender_id IS 'The configured sender.';
COMMENT ON COLUMN upstream.senders.id_scope IS 'sender: message_key follows from sender_id and message_id alone; device: from the registration token, too.';

-- Workers go on with the rights they have: whoever may write messages may tell whose they are.
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT a.privilege_type, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
        FROM pg_class AS c, aclexplode(c.relacl) AS a
        WHERE c.oid = 'upstream.message_ids'::regclass AND a.grantee <> c.relowner
            AND a.privilege_type IN ('SELECT', 'INSERT')
    LOOP
        EXECUTE format('GRANT %s ON upstream.senders TO %s', known.privilege_type, known.grantee);
    END LOOP;
END
$$;

CREATE FUNCTION upstream.message_key(sender_id text, message_id text) RETURNS uuid
LANGUAGE sql STABLE AS $$
    SELECT encode(substring(
        sha256(convert_to(sender_id, 'UTF8') || '\x00'::bytea || convert_to(message_id, 'UTF8')) FOR 16), 'hex')::uuid
$$;
COMMENT ON FUNCTION upstream.message_key(text, text) IS 'The message_key of an id, where ids are unique for a sender (id_scope sender).';

CREATE FUNCTION upstream.id_scope(sender_id text, message_id text, message_key uuid) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN message_key = upstream.message_key(sender_id, message_id) THEN 'sender' ELSE 'device' END
$$;
COMMENT ON FUNCTION upstream.id_scope(text, text, uuid) IS 'What a message_key was derived from: see upstream.senders.';

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

-- The rest is as in 0012, but for the senders; and batches of several senders are inserted as plainly as those of one.
CREATE OR REPLACE FUNCTION upstream.store_batch(
    ledger_keys uuid[], ledger_fingerprints uuid[], ledger_times timestamptz[],
    keys uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    only_sender text, only_from text,
    holder text, fence bigint, lease_length bigint, offered text[], locals text[], packed text[], block bigint,
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The keys that are new; null where all are.
    fresh uuid[];
    is_elsewhere boolean;
    -- The handlers whose deliveries are in a block already: every message of the batch.
    whole text[] := '{}';
BEGIN
    -- An ack promises that neither a crash nor a failover loses it, so the commit waits for the disk and for the standbys
    -- that the server waits for, whatever its default, or the role's, is. remote_apply promises more and is kept.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    BEGIN
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times);
        stored := cardinality(ledger_keys);
    EXCEPTION
        WHEN unique_violation THEN
            WITH inserted AS (
                INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
                SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times)
                ON CONFLICT DO NOTHING
                RETURNING message_key
            )
            SELECT coalesce(array_agg(message_key), '{}') FROM inserted INTO fresh;
            stored := cardinality(fresh);
    END;
    IF stored = 0 THEN
        RETURN;
    END IF;
    -- A worker derives all keys of a sender in one way, so any row of it tells which.
    IF only_sender IS NULL OR NOT EXISTS (
        SELECT FROM upstream.senders AS s
        WHERE s.sender_id = only_sender AND s.id_scope = upstream.id_scope(only_sender, ids[1], keys[1])
    ) THEN
        INSERT INTO upstream.senders (sender_id, id_scope)
        SELECT one.sender, upstream.id_scope(one.sender, one.id, one.key)
        FROM (
            SELECT DISTINCT ON (coalesce(i.sender, only_sender)) coalesce(i.sender, only_sender), i.id, i.key
            FROM unnest(senders, ids, keys) AS i (sender, id, key) ORDER BY coalesce(i.sender, only_sender)
        ) AS one (sender, id, key)
        WHERE NOT EXISTS (
            SELECT FROM upstream.senders AS s
            WHERE s.sender_id = one.sender AND s.id_scope = upstream.id_scope(one.sender, one.id, one.key)
        )
        ORDER BY one.sender
        ON CONFLICT DO NOTHING;
    END IF;
    IF fresh IS NULL AND only_sender IS NOT NULL THEN
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            unnest(keys), unnest(times), only_sender, unnest(ids), unnest(tokens), unnest(devices), unnest(categories),
            unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), only_from;
    ELSIF fresh IS NULL THEN
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            unnest(keys), unnest(times), unnest(senders), unnest(ids), unnest(tokens), unnest(devices),
            unnest(categories), unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), unnest(froms);
    ELSE
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            key, received_at, coalesce(sender, only_sender), id, token, device, category, data::json, raw, extra, type,
            coalesce(stanza_from, only_from)
        FROM unnest(keys, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms)
            AS input (key, received_at, sender, id, token, device, category, data, raw, extra, type, stanza_from)
        WHERE (key IN (SELECT unnest(fresh))) IS TRUE;
    END IF;
    IF fresh IS NULL AND cardinality(packed) > 0 THEN
        -- The usual case at no cost for each message: a handler that takes everything, of a batch that is new throughout.
        WITH block AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, s.handler, holder, now() + lease_length * interval '1 microsecond',
                store_batch.keys, store_batch.times
            FROM upstream.subscriptions AS s
            JOIN upstream.handler_workers AS w ON w.token = fence AND w.handler = s.handler AND '*' = ANY (w.categories)
            WHERE s.handler = ANY (packed) AND s.category = '*' AND NOT s.by_device
            RETURNING handler
        )
        SELECT coalesce(array_agg(handler), '{}') FROM block INTO whole;
    END IF;
    IF EXISTS (SELECT FROM upstream.subscriptions WHERE handler <> ALL (whole)) THEN
        -- With what the holder asks for, if it has said so: a row is leased to it only where it asks for the category, else it
        -- would lie with a worker that knows nothing of it.
        WITH known AS MATERIALIZED (
            SELECT s.*, handler = ANY (offered) AS is_offered, handler = ANY (locals) AS is_local,
                handler = ANY (packed) AND NOT by_device AS is_packed, (
                SELECT w.categories FROM upstream.handler_workers AS w WHERE w.token = fence AND w.handler = s.handler
            ) AS asked
            FROM upstream.subscriptions AS s
            WHERE handler <> ALL (whole)
        ), wanted AS MATERIALIZED (
            SELECT
                s.handler, s.by_device, s.is_offered, s.is_local, s.is_packed AND s.asked IS NOT NULL AS is_packed, input.*,
                s.asked IS NULL OR input.category = ANY (s.asked) OR '*' = ANY (s.asked) AS is_asked
            FROM known AS s
            JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
                ON s.category = input.category OR s.category = '*'
            WHERE fresh IS NULL OR (input.key IN (SELECT unnest(fresh))) IS TRUE
        ), queue AS (
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
            )
            SELECT
                handler, key, received_at, now(), CASE WHEN by_device THEN device END,
                CASE WHEN is_offered AND is_asked THEN holder END, CASE WHEN is_offered AND is_asked THEN fence ELSE 0 END,
                CASE WHEN is_offered AND is_asked THEN now() + lease_length * interval '1 microsecond' END
            FROM wanted
            WHERE NOT (is_packed AND is_asked)
            ON CONFLICT DO NOTHING
        ), blocks AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, handler, holder, now() + lease_length * interval '1 microsecond',
                array_agg(key), array_agg(received_at)
            -- Once each, however many of a handler's subscriptions a message matches.
            FROM (SELECT DISTINCT handler, key, received_at FROM wanted WHERE is_packed AND is_asked) AS chosen
            GROUP BY handler
        )
        SELECT EXISTS (SELECT FROM wanted WHERE NOT (is_local AND is_asked)) INTO is_elsewhere;
        IF is_elsewhere THEN
            PERFORM pg_notify('upstream_deliveries', '');
        END IF;
    END IF;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        stored := NULL;
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;

-- Workers of the version before 0011.
CREATE OR REPLACE FUNCTION upstream.store_messages(
    keys uuid[], fingerprints uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    holder text, fence bigint, lease_length bigint, offered text[], locals text[],
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT * FROM upstream.store_batch(
        keys, fingerprints, times, keys, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms,
        NULL, NULL, holder, fence, lease_length, offered, locals, '{}', 0
    ) INTO stored, refused_state, refused_table, refused_constraint;
END
$$;

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

-- As in 0009, and calls upstream.filter_ids.
CREATE OR REPLACE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
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

-- Reads every message once; nobody waits for that.
INSERT INTO upstream.senders (sender_id, id_scope)
SELECT DISTINCT m.sender_id, upstream.id_scope(m.sender_id, m.message_id, m.message_key) FROM upstream.messages AS m;

-- From here to the commit inserts wait, so it is little. Whoever reads for long makes this fail; it does not stop everything.
SET LOCAL lock_timeout = '1500ms';
DROP INDEX upstream.messages_message_id_idx;

-- migrate:down
CREATE OR REPLACE FUNCTION upstream.store_batch(
    ledger_keys uuid[], ledger_fingerprints uuid[], ledger_times timestamptz[],
    keys uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    only_sender text, only_from text,
    holder text, fence bigint, lease_length bigint, offered text[], locals text[], packed text[], block bigint,
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The keys that are new; null where all are.
    fresh uuid[];
    is_elsewhere boolean;
    -- The handlers whose deliveries are in a block already: every message of the batch.
    whole text[] := '{}';
BEGIN
    -- An ack promises that neither a crash nor a failover loses it, so the commit waits for the disk and for the standbys
    -- that the server waits for, whatever its default, or the role's, is. remote_apply promises more and is kept.
    PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
    BEGIN
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times);
        stored := cardinality(ledger_keys);
    EXCEPTION
        WHEN unique_violation THEN
            WITH inserted AS (
                INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
                SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times)
                ON CONFLICT DO NOTHING
                RETURNING message_key
            )
            SELECT coalesce(array_agg(message_key), '{}') FROM inserted INTO fresh;
            stored := cardinality(fresh);
    END;
    IF stored = 0 THEN
        RETURN;
    END IF;
    IF fresh IS NULL AND only_sender IS NOT NULL THEN
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            unnest(keys), unnest(times), only_sender, unnest(ids), unnest(tokens), unnest(devices), unnest(categories),
            unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), only_from;
    ELSE
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            key, received_at, coalesce(sender, only_sender), id, token, device, category, data::json, raw, extra, type,
            coalesce(stanza_from, only_from)
        FROM unnest(keys, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms)
            AS input (key, received_at, sender, id, token, device, category, data, raw, extra, type, stanza_from)
        WHERE fresh IS NULL OR (key IN (SELECT unnest(fresh))) IS TRUE;
    END IF;
    IF fresh IS NULL AND cardinality(packed) > 0 THEN
        -- The usual case at no cost for each message: a handler that takes everything, of a batch that is new throughout.
        WITH block AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, s.handler, holder, now() + lease_length * interval '1 microsecond',
                store_batch.keys, store_batch.times
            FROM upstream.subscriptions AS s
            JOIN upstream.handler_workers AS w ON w.token = fence AND w.handler = s.handler AND '*' = ANY (w.categories)
            WHERE s.handler = ANY (packed) AND s.category = '*' AND NOT s.by_device
            RETURNING handler
        )
        SELECT coalesce(array_agg(handler), '{}') FROM block INTO whole;
    END IF;
    IF EXISTS (SELECT FROM upstream.subscriptions WHERE handler <> ALL (whole)) THEN
        -- With what the holder asks for, if it has said so: a row is leased to it only where it asks for the category, else it
        -- would lie with a worker that knows nothing of it.
        WITH known AS MATERIALIZED (
            SELECT s.*, handler = ANY (offered) AS is_offered, handler = ANY (locals) AS is_local,
                handler = ANY (packed) AND NOT by_device AS is_packed, (
                SELECT w.categories FROM upstream.handler_workers AS w WHERE w.token = fence AND w.handler = s.handler
            ) AS asked
            FROM upstream.subscriptions AS s
            WHERE handler <> ALL (whole)
        ), wanted AS MATERIALIZED (
            SELECT
                s.handler, s.by_device, s.is_offered, s.is_local, s.is_packed AND s.asked IS NOT NULL AS is_packed, input.*,
                s.asked IS NULL OR input.category = ANY (s.asked) OR '*' = ANY (s.asked) AS is_asked
            FROM known AS s
            JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
                ON s.category = input.category OR s.category = '*'
            WHERE fresh IS NULL OR (input.key IN (SELECT unnest(fresh))) IS TRUE
        ), queue AS (
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
            )
            SELECT
                handler, key, received_at, now(), CASE WHEN by_device THEN device END,
                CASE WHEN is_offered AND is_asked THEN holder END, CASE WHEN is_offered AND is_asked THEN fence ELSE 0 END,
                CASE WHEN is_offered AND is_asked THEN now() + lease_length * interval '1 microsecond' END
            FROM wanted
            WHERE NOT (is_packed AND is_asked)
            ON CONFLICT DO NOTHING
        ), blocks AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, handler, holder, now() + lease_length * interval '1 microsecond',
                array_agg(key), array_agg(received_at)
            -- Once each, however many of a handler's subscriptions a message matches.
            FROM (SELECT DISTINCT handler, key, received_at FROM wanted WHERE is_packed AND is_asked) AS chosen
            GROUP BY handler
        )
        SELECT EXISTS (SELECT FROM wanted WHERE NOT (is_local AND is_asked)) INTO is_elsewhere;
        IF is_elsewhere THEN
            PERFORM pg_notify('upstream_deliveries', '');
        END IF;
    END IF;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        stored := NULL;
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;
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
    ), known AS MATERIALIZED (
        -- With what the holder asks for, if it has said so: it knows nothing of categories that only others ask for.
        SELECT s.*, handler = ANY (offered) AS is_offered, handler = ANY (locals) AS is_local, (
            SELECT w.categories FROM upstream.handler_workers AS w WHERE w.token = fence AND w.handler = s.handler
        ) AS asked
        FROM upstream.subscriptions AS s
    ), wanted AS MATERIALIZED (
        SELECT
            s.handler, s.by_device, s.is_offered, s.is_local, input.*,
            s.asked IS NULL OR input.category = ANY (s.asked) OR '*' = ANY (s.asked) AS is_asked
        FROM known AS s
        JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
            ON s.category = input.category OR s.category = '*'
        WHERE (input.key IN (SELECT message_key FROM fresh)) IS TRUE
    ), queue AS (
        INSERT INTO upstream.deliveries (
            handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
        )
        SELECT
            handler, key, received_at, now(), CASE WHEN by_device THEN device END,
            CASE WHEN is_offered AND is_asked THEN holder END, CASE WHEN is_offered AND is_asked THEN fence ELSE 0 END,
            CASE WHEN is_offered AND is_asked THEN now() + lease_length * interval '1 microsecond' END
        FROM wanted
        ON CONFLICT DO NOTHING
    )
    SELECT
        (SELECT count(*) FROM fresh),
        (SELECT count(pg_notify('upstream_deliveries', ''))
        FROM (SELECT FROM wanted WHERE NOT (is_local AND is_asked) LIMIT 1) AS other)
    INTO stored, announced;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;
CREATE OR REPLACE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
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
DROP FUNCTION upstream.filter_ids();
DROP FUNCTION upstream.messages_with_id(text);
DROP FUNCTION upstream.id_scope(text, text, uuid);
DROP FUNCTION upstream.message_key(text, text);
DROP TABLE upstream.senders;
DROP INDEX IF EXISTS upstream.messages_message_id_idx;
-- Stops inserts while it reads every message.
CREATE INDEX messages_message_id_idx ON upstream.messages USING hash (message_id);

"""#),
        Migration(fileName: "0014_audit.sql", text: #"""
-- migrate:up
-- What people did. Nobody has a right to the table but to read it: an entry is made by upstream.record_audit, which itself says when
-- and by which role, in the transaction of what it is about.
CREATE TABLE upstream.audit (
    id bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL,
    who text NOT NULL,
    role text NOT NULL,
    via text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    count bigint,
    reason text,
    CONSTRAINT audit_pkey PRIMARY KEY (id),
    CONSTRAINT audit_via_check CHECK (via IN ('command', 'console')),
    CONSTRAINT audit_count_check CHECK (count >= 0)
);
CREATE INDEX audit_at_idx ON upstream.audit (at);
CREATE INDEX audit_who_idx ON upstream.audit (who, id);
CREATE INDEX audit_action_idx ON upstream.audit (action, id);
COMMENT ON SEQUENCE upstream.audit_id_seq IS 'Where audit.id comes from.';
COMMENT ON TABLE upstream.audit IS 'What people did, by command or console: append-only, kept for 730 days; see upstream.record_audit.';
COMMENT ON COLUMN upstream.audit.id IS 'Grows from entry to entry.';
COMMENT ON COLUMN upstream.audit.at IS 'When, by the database''s clock.';
COMMENT ON COLUMN upstream.audit.who IS 'Who: the operating system''s user and host of a command, or the name that somebody signed in to the console with.';
COMMENT ON COLUMN upstream.audit.role IS 'The database role of the session.';
COMMENT ON COLUMN upstream.audit.via IS 'command or console.';
COMMENT ON COLUMN upstream.audit.action IS 'What, such as dead.retry. An action of several transactions has an entry before the first, and one that ends in .finished after the last.';
COMMENT ON COLUMN upstream.audit.subject IS 'To what: a handler, a filter, a device_key; never a registration token or a payload.';
COMMENT ON COLUMN upstream.audit.count IS 'To how many rows; null where that is not known, or means nothing.';
COMMENT ON COLUMN upstream.audit.reason IS 'Why, in the words of whoever did it.';

-- Holds for the table's owner as well: a mistake in a statement changes no entry. Only what has expired can be deleted.
CREATE FUNCTION upstream.guard_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND old.at < now() - interval '730 days' THEN
        RETURN old;
    END IF;
    RAISE EXCEPTION 'upstream.audit is append-only' USING ERRCODE = '42501';
END
$$;
COMMENT ON FUNCTION upstream.guard_audit() IS 'Refuses to change the audit trail.';
CREATE TRIGGER audit_row_guard BEFORE UPDATE OR DELETE ON upstream.audit FOR EACH ROW EXECUTE FUNCTION upstream.guard_audit();
CREATE TRIGGER audit_table_guard BEFORE TRUNCATE ON upstream.audit FOR EACH STATEMENT EXECUTE FUNCTION upstream.guard_audit();

-- The bound is one of time alone, so that nobody pushes an entry out by making many; see upstream.purge_audit.
CREATE FUNCTION upstream.record_audit(who text, via text, action text, subject text, count bigint, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    entry bigint;
BEGIN
    INSERT INTO upstream.audit (at, who, role, via, action, subject, count, reason)
    VALUES (
        clock_timestamp(), left(record_audit.who, 200), session_user, record_audit.via, left(record_audit.action, 64),
        left(record_audit.subject, 1000), record_audit.count, left(record_audit.reason, 1000))
    RETURNING id INTO entry;
    RETURN entry;
END
$$;
REVOKE ALL ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text) FROM PUBLIC;
COMMENT ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text) IS 'Adds an entry to the audit trail, with the time and the session''s role; gives its id.';

-- For a worker's retention, which first compares this server's clock with its own: a clock that is years ahead deletes nothing.
CREATE FUNCTION upstream.purge_audit(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.audit WHERE id IN (
        SELECT id FROM upstream.audit WHERE at < now() - interval '730 days' ORDER BY at LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_audit(integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_audit(integer) IS 'Deletes entries of the audit trail that are older than 730 days: most of them at once. Null where another worker is at it.';

-- Commands of this version need it at once.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_worker') THEN
        GRANT EXECUTE ON FUNCTION
            upstream.record_audit(text, text, text, text, bigint, text), upstream.purge_audit(integer)
            TO upstream_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_reader') THEN
        GRANT SELECT ON upstream.audit TO upstream_reader;
    END IF;
END
$$;

-- migrate:down
DROP FUNCTION upstream.purge_audit(integer);
DROP FUNCTION upstream.record_audit(text, text, text, text, bigint, text);
DROP TABLE upstream.audit;
DROP FUNCTION upstream.guard_audit();

"""#),
        Migration(fileName: "0015_workers.sql", text: #"""
-- migrate:up
-- What runs now, for those who have no way to the workers' own ports: the console, and people with psql. Each process writes
-- its one row every few seconds; nothing is decided by it.
CREATE TABLE upstream.workers (
    instance uuid NOT NULL,
    worker text NOT NULL,
    version text NOT NULL,
    roles text[] NOT NULL,
    started_at timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    stopping boolean NOT NULL,
    in_flight bigint NOT NULL,
    streams jsonb NOT NULL,
    rates jsonb NOT NULL,
    handlers jsonb NOT NULL,
    CONSTRAINT workers_pkey PRIMARY KEY (instance)
    -- No index but that of the key, and room on the page: an update touches nothing else.
) WITH (fillfactor = 40, autovacuum_vacuum_threshold = 1000);
ALTER TABLE upstream.workers
    ALTER COLUMN streams SET STORAGE MAIN,
    ALTER COLUMN rates SET STORAGE MAIN,
    ALTER COLUMN handlers SET STORAGE MAIN;
COMMENT ON TABLE upstream.workers IS 'What runs now: each worker writes its row every five seconds and deletes it when it stops in order. Alive is one whose heartbeat_at is less than 20 seconds old; one that is silent for ten minutes is deleted by the others.';
COMMENT ON COLUMN upstream.workers.instance IS 'Names the process; made anew at each start.';
COMMENT ON COLUMN upstream.workers.worker IS 'The process for people: host and process id, as in deliveries.lease_owner.';
COMMENT ON COLUMN upstream.workers.version IS 'The version of its binary.';
COMMENT ON COLUMN upstream.workers.roles IS 'What it does: receive, dispatch, or both.';
COMMENT ON COLUMN upstream.workers.started_at IS 'When it started.';
COMMENT ON COLUMN upstream.workers.heartbeat_at IS 'When it last wrote this row, by this server''s clock.';
COMMENT ON COLUMN upstream.workers.stopping IS 'Whether it is shutting down.';
COMMENT ON COLUMN upstream.workers.in_flight IS 'Copies that it has received and not yet settled.';
COMMENT ON COLUMN upstream.workers.streams IS 'Its streams: an array with an object for each sender: sender, connecting, bound, draining.';
COMMENT ON COLUMN upstream.workers.rates IS 'What it did since the row before: seconds (the time between them); received, stored, duplicates, acked, handled, each per second; ack_p50 and ack_p99 in seconds, null without an ack.';
COMMENT ON COLUMN upstream.workers.handlers IS 'Its handlers: an array with an object for each: handler, circuit (closed, open, half_open), next_probe (in so many seconds from heartbeat_at, or null), paused, running, waiting (deliveries in its memory), attempts and failed (per second).';

-- Workers have the rights for it at once, those of the version before included.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_worker') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON upstream.workers TO upstream_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_reader') THEN
        GRANT SELECT ON upstream.workers TO upstream_reader;
    END IF;
END
$$;

-- migrate:down
DROP TABLE upstream.workers;

"""#),
        Migration(fileName: "0016_attempts.sql", text: #"""
-- migrate:up
-- What was tried, successes too. A row holds many attempts of one handler that ended alike and were settled together, of
-- messages that arrived within one second: a settled block costs one row, where a row for each message would cost more than
-- the settlement itself. Found by the time of arrival, which the ledger knows for each key; so the only index is one that
-- grows at its end, and no insert touches a random page.
CREATE TABLE upstream.attempt_batches (
    settled_at timestamptz NOT NULL,
    handler text NOT NULL,
    worker text NOT NULL,
    outcome text NOT NULL,
    first_received timestamptz NOT NULL,
    last_received timestamptz NOT NULL,
    keys uuid[] NOT NULL,
    ages real[] NOT NULL,
    durations real[] NOT NULL,
    numbers integer[],
    error_groups text[],
    CONSTRAINT attempt_batches_outcome_check
        CHECK (outcome IN ('done', 'retry', 'rejected', 'exhausted', 'released')),
    -- What upstream.attempts_of relies on.
    CONSTRAINT attempt_batches_received_check
        CHECK (last_received >= first_received AND last_received < first_received + interval '1 second')
) PARTITION BY RANGE (settled_at);
-- Keys are hashes: trying to compress them is time lost.
ALTER TABLE upstream.attempt_batches
    ALTER COLUMN keys SET STORAGE EXTERNAL, ALTER COLUMN keys SET STATISTICS 0,
    ALTER COLUMN ages SET STORAGE EXTERNAL, ALTER COLUMN ages SET STATISTICS 0,
    ALTER COLUMN durations SET STORAGE EXTERNAL, ALTER COLUMN durations SET STATISTICS 0;
-- Without a key of its own, what publishes all tables would refuse that forget changes a row, and that the rest is emptied.
ALTER TABLE upstream.attempt_batches REPLICA IDENTITY FULL;
CREATE INDEX attempt_batches_received_idx ON upstream.attempt_batches (first_received, last_received);
COMMENT ON TABLE upstream.attempt_batches IS 'How upstream.attempts is stored: a row for attempts of one handler that ended alike, were settled together, and whose messages arrived within one second. Arrays are in the order of keys. By UTC day of settled_at, kept for retention_policy.attempts.';
COMMENT ON COLUMN upstream.attempt_batches.settled_at IS 'When the settlement was written, by this server''s clock; the row commits with it.';
COMMENT ON COLUMN upstream.attempt_batches.handler IS 'The handler.';
COMMENT ON COLUMN upstream.attempt_batches.worker IS 'The process that made the attempts: host and process id.';
COMMENT ON COLUMN upstream.attempt_batches.outcome IS 'How they ended; see upstream.attempts.';
COMMENT ON COLUMN upstream.attempt_batches.first_received IS 'The earliest received_at of the messages.';
COMMENT ON COLUMN upstream.attempt_batches.last_received IS 'The latest; less than a second later.';
COMMENT ON COLUMN upstream.attempt_batches.keys IS 'The messages.';
COMMENT ON COLUMN upstream.attempt_batches.ages IS 'How many seconds before settled_at each attempt began.';
COMMENT ON COLUMN upstream.attempt_batches.durations IS 'How many seconds each took; null where a delivery became a dead letter without an attempt.';
COMMENT ON COLUMN upstream.attempt_batches.numbers IS 'The number of each attempt; null where all were first ones.';
COMMENT ON COLUMN upstream.attempt_batches.error_groups IS 'What went wrong, as dead_letters.error_group; null where nothing did.';

-- A settlement never fails for want of a day: what finds none waits here, and goes to its day when that is made.
CREATE TABLE upstream.attempt_batches_rest PARTITION OF upstream.attempt_batches DEFAULT;
ALTER TABLE upstream.attempt_batches_rest REPLICA IDENTITY FULL;
COMMENT ON TABLE upstream.attempt_batches_rest IS 'Attempts settled on days that have no partition yet; usually empty.';
COMMENT ON COLUMN upstream.attempt_batches_rest.settled_at IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.handler IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.worker IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.outcome IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.first_received IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.last_received IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.keys IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.ages IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.durations IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.numbers IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.error_groups IS 'See upstream.attempt_batches.';

CREATE VIEW upstream.attempts AS
SELECT
    e.message_key, b.handler, coalesce(e.number, 1) AS attempt,
    b.settled_at - e.age * interval '1 second' AS started_at, e.duration * interval '1 second' AS duration, b.outcome,
    substring(e.error_group FROM '^webhook status ([0-9]{3})$')::integer AS status, e.error_group, b.worker, b.settled_at
FROM upstream.attempt_batches AS b
CROSS JOIN LATERAL unnest(b.keys, b.ages, b.durations, b.numbers, b.error_groups)
    AS e (message_key, age, duration, number, error_group);
COMMENT ON VIEW upstream.attempts IS 'What was tried: a row for each attempt at a delivery, written with its settlement, kept for retention_policy.attempts. Restrict settled_at to read some days only; upstream.attempts_of(message_key) finds those of one message by an index, a condition on message_key reads everything.';
COMMENT ON COLUMN upstream.attempts.message_key IS 'The message; that of a released conflict is its release key, as in deliveries.';
COMMENT ON COLUMN upstream.attempts.handler IS 'The handler.';
COMMENT ON COLUMN upstream.attempts.attempt IS 'Its number: 1, and one more for each attempt before it that was counted.';
COMMENT ON COLUMN upstream.attempts.started_at IS 'When it began, by this server''s clock.';
COMMENT ON COLUMN upstream.attempts.duration IS 'How long it took; null where a delivery became a dead letter without an attempt.';
COMMENT ON COLUMN upstream.attempts.outcome IS 'done; retry: counted, and tried again; rejected, exhausted: a dead letter; released: not counted, and tried again.';
COMMENT ON COLUMN upstream.attempts.status IS 'The HTTP status of a webhook''s answer that was no success.';
COMMENT ON COLUMN upstream.attempts.error_group IS 'What went wrong, as dead_letters.error_group.';
COMMENT ON COLUMN upstream.attempts.worker IS 'The process that made it: host and process id.';
COMMENT ON COLUMN upstream.attempts.settled_at IS 'When its outcome was written. The column that the days are made by.';

-- One statement for each step, so that each has the one plan it can have.
CREATE FUNCTION upstream.attempts_of(key uuid) RETURNS SETOF upstream.attempts
LANGUAGE plpgsql STABLE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    arrival timestamptz;
BEGIN
    FOR arrival IN
        SELECT i.received_at FROM upstream.message_ids AS i WHERE i.message_key = key
        UNION SELECT d.received_at FROM upstream.deliveries AS d WHERE d.message_key = key
        UNION SELECT d.received_at FROM upstream.dead_letters AS d WHERE d.message_key = key
        UNION SELECT c.received_at FROM upstream.conflicts AS c
        WHERE upstream.release_key(c.message_key, c.fingerprint) = key AND c.released_at IS NOT NULL
    LOOP
        RETURN QUERY SELECT * FROM upstream.attempts_of(key, arrival);
    END LOOP;
END
$$;
CREATE FUNCTION upstream.attempts_of(key uuid, arrival timestamptz) RETURNS SETOF upstream.attempts
LANGUAGE sql STABLE ROWS 10 AS $$
    SELECT
        e.message_key, b.handler, coalesce(e.number, 1), b.settled_at - e.age * interval '1 second',
        e.duration * interval '1 second', b.outcome,
        substring(e.error_group FROM '^webhook status ([0-9]{3})$')::integer, e.error_group, b.worker, b.settled_at
    FROM upstream.attempt_batches AS b
    CROSS JOIN LATERAL unnest(b.keys, b.ages, b.durations, b.numbers, b.error_groups)
        AS e (message_key, age, duration, number, error_group)
    WHERE b.first_received > arrival - interval '1 second' AND b.first_received <= arrival
        AND b.last_received >= arrival AND e.message_key = key
$$;
COMMENT ON FUNCTION upstream.attempts_of(uuid) IS 'The attempts at one message, by handlers and in no order: found by an index. For a message whose id the ledger still knows.';
COMMENT ON FUNCTION upstream.attempts_of(uuid, timestamptz) IS 'As attempts_of(key), for a message of which received_at is known.';

-- Which days there are; both bounds are null for the rest.
CREATE FUNCTION upstream.attempt_partitions(
    OUT relation oid, OUT relname name, OUT since timestamptz, OUT until timestamptz
) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' AS $$
    SELECT c.oid, c.relname, btrim(bounds[1], '''')::timestamptz, btrim(bounds[2], '''')::timestamptz
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    LEFT JOIN LATERAL regexp_match(
        pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \((''.*'')\) TO \((''.*'')\)$') AS bounds ON true
    WHERE i.inhparent = 'upstream.attempt_batches'::regclass AND NOT i.inhdetachpending
$$;
COMMENT ON FUNCTION upstream.attempt_partitions() IS 'The partitions of attempt_batches with their bounds: a UTC day each, and one without bounds for the rest.';

-- ATTACH locks the rest, where usually nothing is, and lets inserts into the other days go on.
CREATE FUNCTION upstream.ensure_attempts(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET lock_timeout = 1500 AS $$
DECLARE
    day date;
    title name;
    number integer;
    made integer := 0;
    is_full boolean;
BEGIN
    IF first_day < '2000-01-01' OR last_day > '2100-12-31' OR last_day - first_day > 400 THEN
        RAISE EXCEPTION 'upstream.ensure_attempts makes 400 days of the years 2000 to 2100 at most'
            USING ERRCODE = '55000', HINT = 'Set the clock of the machine that asks.';
    END IF;
    -- Where nothing is kept nothing is written.
    IF EXISTS (SELECT FROM upstream.retention_policy WHERE attempts = interval '0') THEN
        RETURN 0;
    END IF;
    FOR day IN SELECT first_day + n FROM generate_series(0, last_day - first_day) AS n LOOP
        CONTINUE WHEN EXISTS (
            SELECT FROM upstream.attempt_partitions() AS p WHERE p.since < (day + 1)::timestamptz AND p.until > day::timestamptz
        );
        -- One maker at a time; whoever waited looks again.
        PERFORM pg_advisory_xact_lock(hashtextextended('upstream.ensure_attempts', 0));
        CONTINUE WHEN EXISTS (
            SELECT FROM upstream.attempt_partitions() AS p WHERE p.since < (day + 1)::timestamptz AND p.until > day::timestamptz
        );
        -- Only now: whoever looked at the rest before waiting for the maker would keep the maker from locking it.
        IF is_full IS NULL THEN
            SELECT count(*) > 10000 FROM (SELECT FROM upstream.attempt_batches_rest LIMIT 10001) AS few INTO is_full;
        END IF;
        -- Settlements wait while the rest is locked: much of a day stays there until it is purged, and of the others one is made.
        CONTINUE WHEN is_full AND EXISTS (
            SELECT FROM upstream.attempt_batches_rest WHERE settled_at >= day::timestamptz AND settled_at < (day + 1)::timestamptz
        );
        EXIT WHEN is_full AND made > 0;
        title := 'attempt_batches_' || to_char(day, 'YYYYMMDD');
        number := 0;
        WHILE EXISTS (SELECT FROM pg_class WHERE relnamespace = 'upstream'::regnamespace AND relname = title) LOOP
            number := number + 1;
            title := 'attempt_batches_' || to_char(day, 'YYYYMMDD') || '_' || number;
        END LOOP;
        EXECUTE format('CREATE TABLE upstream.%I (LIKE upstream.attempt_batches INCLUDING ALL)', title);
        EXECUTE format('COMMENT ON TABLE upstream.%I IS %L', title, 'Attempts settled on ' || day || ' UTC.');
        EXECUTE format(
            'ALTER TABLE upstream.%I ALTER COLUMN keys SET STATISTICS 0, ALTER COLUMN ages SET STATISTICS 0, '
            'ALTER COLUMN durations SET STATISTICS 0, REPLICA IDENTITY FULL', title);
        LOCK TABLE ONLY upstream.attempt_batches_rest IN ACCESS EXCLUSIVE MODE;
        EXECUTE format(
            'WITH moved AS (DELETE FROM upstream.attempt_batches_rest WHERE settled_at >= $1 AND settled_at < $2 RETURNING *) '
            'INSERT INTO upstream.%I SELECT * FROM moved', title) USING day::timestamptz, (day + 1)::timestamptz;
        EXECUTE format(
            'ALTER TABLE upstream.attempt_batches ATTACH PARTITION upstream.%I FOR VALUES FROM (%L) TO (%L)',
            title, day::timestamptz, (day + 1)::timestamptz);
        made := made + 1;
    END LOOP;
    RETURN made;
EXCEPTION
    -- Somebody reads all of it; another call makes them, well before they are needed. Nothing is lost meanwhile.
    WHEN lock_not_available THEN
        RETURN -1;
END
$$;
REVOKE ALL ON FUNCTION upstream.ensure_attempts(date, date) FROM PUBLIC;
COMMENT ON FUNCTION upstream.ensure_attempts(date, date) IS 'Makes the missing partitions of attempt_batches for these UTC days and returns their number; 0 where the policy keeps no attempts, -1 where the table was in use.';

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

-- Settlements wait 50 ms at most for each day that goes.
CREATE FUNCTION upstream.purge_attempts(OUT dropped integer, OUT locked integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = 50 AS $$
DECLARE
    old_end timestamptz := upstream.retention_end('attempts');
    target record;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN;
    END IF;
    dropped := 0;
    locked := 0;
    FOR target IN SELECT p.relname FROM upstream.attempt_partitions() AS p WHERE p.until <= old_end ORDER BY p.since LOOP
        BEGIN
            EXECUTE format('DROP TABLE upstream.%I', target.relname);
            dropped := dropped + 1;
        EXCEPTION
            WHEN lock_not_available THEN
                locked := locked + 1;
                EXIT;
        END;
    END LOOP;
    BEGIN
        DELETE FROM upstream.attempt_batches_rest WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM upstream.attempt_batches_rest WHERE settled_at < old_end LIMIT 100000));
    EXCEPTION
        WHEN lock_not_available THEN
            locked := locked + 1;
    END;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_attempts() FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_attempts() IS 'Drops the days of attempts that are past retention_policy.attempts as a whole. Gives how many, and how many somebody was using; null where another worker is at it.';

-- As the one of 0012, and what is done is written to attempt_batches.
CREATE FUNCTION upstream.unpack_deliveries(
    process bigint, name text, numbers bigint[], done uuid[], who text, done_ages real[], done_durations real[]
) RETURNS bigint
-- The dispatcher's sessions find rows by an index only; here two arrays are joined.
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on AS $$
DECLARE
    settled bigint;
BEGIN
    WITH gone AS (
        DELETE FROM upstream.delivery_blocks
        WHERE token = process AND handler = name AND number = ANY (numbers)
        RETURNING *
    ), held AS MATERIALIZED (
        SELECT gone.*, entry.*, (entry.key IN (SELECT unnest(done))) IS TRUE AS is_done
        FROM gone CROSS JOIN LATERAL unnest(gone.keys, gone.times) AS entry (key, at)
    ), rows AS (
        INSERT INTO upstream.deliveries (
            handler, message_key, received_at, next_attempt_at, lease_owner, lease_token, lease_until, replay_id
        )
        SELECT handler, key, at, now(), lease_owner, token, lease_until, replay_id
        FROM held
        WHERE NOT is_done AND EXISTS (SELECT FROM upstream.message_of(key, at))
        ORDER BY key
        ON CONFLICT DO NOTHING
    ), noted AS (
        INSERT INTO upstream.attempt_batches (
            settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations
        )
        SELECT
            now(), name, who, 'done', min(held.at), max(held.at), array_agg(held.key), array_agg(input.age),
            array_agg(input.duration)
        FROM unnest(done, done_ages, done_durations) AS input (key, age, duration) JOIN held USING (key)
        WHERE held.is_done
        GROUP BY date_trunc('second', held.at)
    )
    SELECT count(*) FROM held WHERE is_done INTO settled;
    RETURN settled;
END
$$;
COMMENT ON FUNCTION upstream.unpack_deliveries(bigint, text, bigint[], uuid[], text, real[], real[]) IS 'Turns blocks of a process into rows of upstream.deliveries under the same lease, less what is done, which is written to upstream.attempt_batches; gives the number of these.';

-- Every worker goes on with the rights that it has.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_worker') THEN
        GRANT SELECT, INSERT ON upstream.attempt_batches TO upstream_worker;
        GRANT SELECT ON upstream.attempts TO upstream_worker;
        GRANT EXECUTE ON FUNCTION upstream.ensure_attempts(date, date), upstream.purge_attempts() TO upstream_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_reader') THEN
        GRANT SELECT ON upstream.attempt_batches, upstream.attempt_batches_rest, upstream.attempts TO upstream_reader;
    END IF;
END
$$;

-- migrate:down
DROP FUNCTION upstream.unpack_deliveries(bigint, text, bigint[], uuid[], text, real[], real[]);
DROP FUNCTION upstream.purge_attempts();
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
    END;
END
$$;
DROP FUNCTION upstream.ensure_attempts(date, date);
DROP FUNCTION upstream.attempts_of(uuid);
DROP FUNCTION upstream.attempts_of(uuid, timestamptz);
DROP VIEW upstream.attempts;
DROP FUNCTION upstream.attempt_partitions();
DROP TABLE upstream.attempt_batches;

"""#),
        Migration(fileName: "0017_console_writes.sql", text: #"""
-- migrate:up
-- What the console is about to do to many rows, or does: the set is frozen when it is asked for, shown, and then acted on in
-- batches, each a transaction that moves next_chunk on. Whoever runs a console goes on where another stopped.
CREATE TABLE upstream.jobs (
    job uuid NOT NULL DEFAULT gen_random_uuid(),
    action text NOT NULL,
    subject text NOT NULL,
    groups json NOT NULL,
    state text NOT NULL DEFAULT 'planned',
    planned bigint NOT NULL,
    chunks integer NOT NULL,
    next_chunk integer NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    started_by text,
    started_at timestamptz,
    reason text,
    finished_at timestamptz,
    last_error text,
    CONSTRAINT jobs_pkey PRIMARY KEY (job),
    CONSTRAINT jobs_state_check CHECK (state IN ('planned', 'running', 'finished', 'cancelled', 'failed')),
    CONSTRAINT jobs_done_check CHECK (done >= 0 AND skipped >= 0 AND done + skipped <= planned)
);
CREATE INDEX jobs_open_idx ON upstream.jobs (state, created_at) WHERE state IN ('planned', 'running');
COMMENT ON TABLE upstream.jobs IS 'Actions of the console on many rows: what was frozen, by whom it was started, and how far it came. Kept for 7 days after the end.';
COMMENT ON COLUMN upstream.jobs.job IS 'Names the job.';
COMMENT ON COLUMN upstream.jobs.action IS 'What is done to the rows, as upstream.audit names it: dead.retry or dead.discard.';
COMMENT ON COLUMN upstream.jobs.subject IS 'The filter that selected them, for people.';
COMMENT ON COLUMN upstream.jobs.groups IS 'Their number by handler and error group, the largest 50.';
COMMENT ON COLUMN upstream.jobs.state IS 'planned (until it is started, or expires), running, finished, cancelled or failed.';
COMMENT ON COLUMN upstream.jobs.planned IS 'How many rows were frozen.';
COMMENT ON COLUMN upstream.jobs.chunks IS 'In how many rows of upstream.job_items they are.';
COMMENT ON COLUMN upstream.jobs.next_chunk IS 'Where it goes on.';
COMMENT ON COLUMN upstream.jobs.done IS 'On how many of them it acted.';
COMMENT ON COLUMN upstream.jobs.skipped IS 'How many were no longer there, or no longer the same.';
COMMENT ON COLUMN upstream.jobs.created_by IS 'Who asked for it.';
COMMENT ON COLUMN upstream.jobs.created_at IS 'When the set was frozen.';
COMMENT ON COLUMN upstream.jobs.expires_at IS 'Until when it can be started.';
COMMENT ON COLUMN upstream.jobs.started_by IS 'Who started it.';
COMMENT ON COLUMN upstream.jobs.started_at IS 'When it was started.';
COMMENT ON COLUMN upstream.jobs.reason IS 'Why, in their own words.';
COMMENT ON COLUMN upstream.jobs.finished_at IS 'When it ended.';
COMMENT ON COLUMN upstream.jobs.last_error IS 'What made it fail.';

CREATE TABLE upstream.job_items (
    job uuid NOT NULL,
    chunk integer NOT NULL,
    handler text[] NOT NULL,
    message_key uuid[] NOT NULL,
    died_at timestamptz[] NOT NULL,
    CONSTRAINT job_items_pkey PRIMARY KEY (job, chunk),
    CONSTRAINT job_items_job_fkey FOREIGN KEY (job) REFERENCES upstream.jobs ON DELETE CASCADE
);
COMMENT ON TABLE upstream.job_items IS 'The rows that a job is about, 1,000 to a row; deleted at its end.';
COMMENT ON COLUMN upstream.job_items.job IS 'The job.';
COMMENT ON COLUMN upstream.job_items.chunk IS 'Counts the job''s rows from 0.';
COMMENT ON COLUMN upstream.job_items.handler IS 'The dead letters'' handlers.';
COMMENT ON COLUMN upstream.job_items.message_key IS 'Their messages.';
COMMENT ON COLUMN upstream.job_items.died_at IS 'When they died: one that was retried and died again is another.';

-- The answers of the console's writes, so that a request that is sent again is answered again and not done again
-- (draft-ietf-httpapi-idempotency-key-header). A row is inserted in the transaction of what was asked for.
CREATE TABLE upstream.idempotency_keys (
    who text NOT NULL,
    key text NOT NULL,
    request bytea NOT NULL,
    status smallint NOT NULL,
    location text,
    answer bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (who, key),
    CONSTRAINT idempotency_keys_size_check CHECK (octet_length(key) <= 255 AND octet_length(answer) <= 262144)
);
CREATE INDEX idempotency_keys_created_at_idx ON upstream.idempotency_keys (created_at);
COMMENT ON TABLE upstream.idempotency_keys IS 'What the console answered to requests that change something, by their Idempotency-Key; for 24 hours.';
COMMENT ON COLUMN upstream.idempotency_keys.who IS 'Who sent the request.';
COMMENT ON COLUMN upstream.idempotency_keys.key IS 'Its Idempotency-Key.';
COMMENT ON COLUMN upstream.idempotency_keys.request IS 'SHA-256 of its method, path and body.';
COMMENT ON COLUMN upstream.idempotency_keys.status IS 'The answer''s HTTP status, of class 2xx: a refused request did nothing, and may be sent again.';
COMMENT ON COLUMN upstream.idempotency_keys.location IS 'The answer''s Location.';
COMMENT ON COLUMN upstream.idempotency_keys.answer IS 'The answer''s body.';
COMMENT ON COLUMN upstream.idempotency_keys.created_at IS 'When it was answered first.';

-- migrate:down
DROP TABLE upstream.idempotency_keys;
DROP TABLE upstream.job_items;
DROP TABLE upstream.jobs;

"""#),
        Migration(fileName: "0018_dead_letter_groups.sql", text: #"""
-- migrate:up
-- One index for everything that is asked of a group: which there are, how many it holds, its first and last, and its
-- letters in their order, each without reading the others.
DROP INDEX upstream.dead_letters_handler_group_idx;
CREATE INDEX dead_letters_handler_group_idx ON upstream.dead_letters (handler, error_group, died_at);

-- migrate:down
DROP INDEX upstream.dead_letters_handler_group_idx;
CREATE INDEX dead_letters_handler_group_idx ON upstream.dead_letters (handler, error_group);

"""#),
        Migration(fileName: "0019_compression.sql", text: #"""
-- migrate:up
-- A row of more than 2 kB is compressed, and PostgreSQL's own method then takes most of an insert's processor time: with lz4
-- such a message costs a third to six tenths of it. That holds for what is stored from now on: nothing is rewritten, and
-- both kinds are read side by side.

-- From here to the commit, which comes soon, inserts wait. Whoever reads for long makes this fail; it does not stop everything.
SET LOCAL lock_timeout = '1500ms';
DO $$
DECLARE
    bodies constant text := 'ALTER COLUMN data SET COMPRESSION lz4, ALTER COLUMN data_raw SET COMPRESSION lz4, '
        'ALTER COLUMN extra SET COMPRESSION lz4';
    day regclass;
BEGIN
    -- Days to come are made like the whole table; those that are there don't follow it. The table first, as inserts lock it.
    EXECUTE 'ALTER TABLE upstream.messages ' || bodies;
    FOR day IN
        SELECT c.oid FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'upstream.messages'::regclass AND c.relkind = 'r' ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE %s %s', day, bodies);
    END LOOP;
    EXECUTE 'ALTER TABLE upstream.conflicts ' || bodies;
    ALTER TABLE upstream.quarantine ALTER COLUMN stanza SET COMPRESSION lz4;
EXCEPTION
    -- A server that was built without lz4: everything stays as it is.
    WHEN feature_not_supported THEN
        RAISE NOTICE 'this server was built without lz4: large messages cost it more';
END
$$;

-- migrate:down
SET LOCAL lock_timeout = '1500ms';
DO $$
DECLARE
    bodies constant text := 'ALTER COLUMN data SET COMPRESSION DEFAULT, ALTER COLUMN data_raw SET COMPRESSION DEFAULT, '
        'ALTER COLUMN extra SET COMPRESSION DEFAULT';
    day regclass;
BEGIN
    EXECUTE 'ALTER TABLE upstream.messages ' || bodies;
    FOR day IN
        SELECT c.oid FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'upstream.messages'::regclass AND c.relkind = 'r' ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE %s %s', day, bodies);
    END LOOP;
    EXECUTE 'ALTER TABLE upstream.conflicts ' || bodies;
    ALTER TABLE upstream.quarantine ALTER COLUMN stanza SET COMPRESSION DEFAULT;
END
$$;

"""#),
        Migration(fileName: "0020_rights.sql", text: #"""
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

"""#),
        Migration(fileName: "0021_store_one.sql", text: #"""
-- migrate:up
-- A message that comes alone is what a device waits for, and most of what PostgreSQL does for it is getting ready: four statements,
-- two subtransactions, 24 arrays. One statement does it here in four fifths of the time (Benchmarks/Store/alone.py). It declines
-- whatever is not plain, for upstream.store_batch to do: an id that the ledger knows, a sender that is not known, handlers that
-- subscribe, a row that is refused. So the rules stay in one place.
CREATE FUNCTION upstream.store_one(
    key uuid, fingerprint uuid, arrival timestamptz, sender text, scope text, id text, token text, device uuid, category text,
    data text, raw text, extra text, type text, stanza_from text
) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- As in upstream.store_batch: an ack relies on this commit.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    WITH ledger AS (
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT key, fingerprint, arrival
        WHERE EXISTS (SELECT FROM upstream.senders AS s WHERE s.sender_id = sender AND s.id_scope = scope)
        ON CONFLICT DO NOTHING
        RETURNING received_at
    )
    INSERT INTO upstream.messages (
        message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from
    )
    SELECT key, received_at, sender, id, token, device, category, data::json, raw, extra, type, stanza_from FROM ledger;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Last, and by a statement of its own: that one may have waited, and handlers have subscribed meanwhile.
    IF EXISTS (SELECT FROM upstream.subscriptions) THEN
        RAISE SQLSTATE 'UW001';
    END IF;
    RETURN true;
EXCEPTION
    -- Nothing of the row may reach the server's log; upstream.store_batch says what is wrong with it.
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded OR SQLSTATE 'UW001' THEN
        RETURN false;
END
$$;
COMMENT ON FUNCTION upstream.store_one IS 'Stores one new message for which no handler subscribes; false where it stored nothing, which upstream.store_batch then has to do or to say why not.';

-- Who may call upstream.store_batch may call this, and nobody else.
REVOKE EXECUTE ON FUNCTION upstream.store_one FROM PUBLIC;
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
        FROM pg_catalog.pg_proc AS p,
            pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) AS a
        WHERE p.pronamespace = 'upstream'::regnamespace AND p.proname = 'store_batch' AND a.grantee <> p.proowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION upstream.store_one TO %s', known.grantee);
    END LOOP;
END
$$;

-- migrate:down
DROP FUNCTION upstream.store_one;

"""#),
        Migration(fileName: "0022_checked_stores.sql", text: #"""
-- migrate:up
-- What upstream.store_batch and its like store is compared with what there was to store. The registration that a worker relies on
-- is looked for, where it stores for handlers. What ids are unique for comes from the worker, where a digest in SQL took a fifth of
-- a small batch's time. Batches that are likely to hold known ids are inserted in the way that costs less for them.

-- A trigger or rule of the site's may drop rows, and says nothing. Catalogs are read here alone, once something is wrong.
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

CREATE FUNCTION upstream.raise_deliveries_missing(
    fresh uuid[], keys uuid[], categories text[], whole text[], fence bigint, block bigint
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted bigint;
    missing bigint;
BEGIN
    WITH asked AS MATERIALIZED (
        SELECT DISTINCT s.handler, input.key
        FROM upstream.subscriptions AS s
        JOIN unnest(keys, categories) AS input (key, category) ON s.category = input.category OR s.category = '*'
        WHERE s.handler <> ALL (whole) AND input.key = ANY (fresh)
    )
    SELECT
        count(*),
        count(*) FILTER (WHERE NOT EXISTS (
            SELECT FROM upstream.deliveries AS d WHERE d.message_key = asked.key AND d.handler = asked.handler
        ) AND NOT EXISTS (
            SELECT FROM upstream.delivery_blocks AS b
            WHERE b.token = fence AND b.number = raise_deliveries_missing.block AND b.handler = asked.handler
        ))
    INTO wanted, missing
    FROM asked;
    IF missing > 0 THEN
        PERFORM upstream.raise_rows_missing(
            wanted, wanted - missing, 'upstream.deliveries', 'upstream.delivery_blocks');
    END IF;
END
$$;
COMMENT ON FUNCTION upstream.raise_deliveries_missing(uuid[], uuid[], text[], text[], bigint, bigint) IS 'Fails where a subscribed handler has neither a delivery nor a block of the messages just stored.';

CREATE FUNCTION upstream.store_batch(
    ledger_keys uuid[], ledger_fingerprints uuid[], ledger_times timestamptz[],
    keys uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    only_sender text, only_from text,
    holder text, fence bigint, lease_length bigint, offered text[], locals text[], packed text[], block bigint,
    origins text[], scopes text[], is_registered boolean, is_mixed boolean, is_retry boolean,
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The keys that are new; null where all are.
    fresh uuid[];
    taken bigint;
    is_elsewhere boolean;
    is_short boolean;
    -- The handlers whose deliveries are in a block already: every message of the batch.
    whole text[] := '{}';
BEGIN
    -- An ack promises that neither a crash nor a failover loses it, so the commit waits for the disk and for the standbys
    -- that the server waits for, whatever its default, or the role's, is. remote_apply promises more and is kept.
    -- That the wait for a standby was broken off PostgreSQL says by a warning alone, and only to who wants to hear it.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('client_min_messages') = 'error' THEN
        PERFORM set_config('client_min_messages', 'warning', true);
    END IF;
    -- Another path makes all plans anew. One that a rule left with nothing to do PostgreSQL keeps after DROP RULE, in each session
    -- that has made it; none is made here while there is such a rule. In WITH it would be an error.
    IF is_retry THEN
        PERFORM set_config('search_path', 'pg_catalog, upstream, pg_temp', true);
        PERFORM upstream.raise_rows_missing(cardinality(ledger_keys), 0, 'upstream.message_ids', 'upstream.messages')
        FROM pg_rewrite AS r
        WHERE r.ev_class IN ('upstream.message_ids'::regclass, 'upstream.messages'::regclass)
            AND r.ev_type = '3' AND r.is_instead AND r.ev_enabled <> 'D' AND r.ev_qual::text = '<>';
    END IF;
    -- A plain insert costs less than one that asks about conflicts, and where there is one all of it is done twice.
    IF NOT is_mixed THEN
        BEGIN
            INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
            SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times);
            GET DIAGNOSTICS stored = ROW_COUNT;
            IF stored < cardinality(ledger_keys) THEN
                PERFORM upstream.raise_rows_missing(cardinality(ledger_keys), stored, 'upstream.message_ids');
            END IF;
        EXCEPTION
            WHEN unique_violation THEN
                is_mixed := true;
        END;
    END IF;
    IF is_mixed THEN
        WITH inserted AS (
            INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
            SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times)
            ON CONFLICT DO NOTHING
            RETURNING message_key
        )
        SELECT array_agg(message_key), count(*) FROM inserted INTO fresh, stored;
        IF stored = cardinality(ledger_keys) THEN
            fresh := NULL;
        END IF;
    END IF;
    IF stored = 0 THEN
        RETURN;
    END IF;
    -- After a failover or a restore the database may not know what this worker's handlers have subscribed to.
    IF is_registered AND cardinality(locals) > (
        SELECT count(*) FROM upstream.handler_workers AS w
        WHERE w.token = fence AND w.worker = holder AND w.handler = ANY (locals)
    ) THEN
        RAISE EXCEPTION 'the registration of this worker''s handlers is not in this database' USING ERRCODE = 'UW003';
    END IF;
    IF EXISTS (
        SELECT FROM unnest(origins, scopes) AS one (sender, scope)
        WHERE NOT EXISTS (SELECT FROM upstream.senders AS s WHERE s.sender_id = one.sender AND s.id_scope = one.scope)
    ) THEN
        INSERT INTO upstream.senders (sender_id, id_scope)
        SELECT one.sender, one.scope FROM unnest(origins, scopes) AS one (sender, scope)
        ORDER BY one.sender
        ON CONFLICT DO NOTHING;
    END IF;
    IF fresh IS NULL AND only_sender IS NOT NULL THEN
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            unnest(keys), unnest(times), only_sender, unnest(ids), unnest(tokens), unnest(devices), unnest(categories),
            unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), only_from;
    ELSIF fresh IS NULL THEN
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            unnest(keys), unnest(times), unnest(senders), unnest(ids), unnest(tokens), unnest(devices),
            unnest(categories), unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), unnest(froms);
    ELSE
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            key, received_at, coalesce(sender, only_sender), id, token, device, category, data::json, raw, extra, type,
            coalesce(stanza_from, only_from)
        FROM unnest(keys, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms)
            AS input (key, received_at, sender, id, token, device, category, data, raw, extra, type, stanza_from)
        WHERE (key IN (SELECT unnest(fresh))) IS TRUE;
    END IF;
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken < stored THEN
        PERFORM upstream.raise_rows_missing(stored, taken, 'upstream.messages');
    END IF;
    IF fresh IS NULL AND cardinality(packed) > 0 THEN
        -- The usual case at no cost for each message: a handler that takes everything, of a batch that is new throughout.
        WITH block AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, s.handler, holder, now() + lease_length * interval '1 microsecond',
                store_batch.keys, store_batch.times
            FROM upstream.subscriptions AS s
            JOIN upstream.handler_workers AS w ON w.token = fence AND w.handler = s.handler AND '*' = ANY (w.categories)
            WHERE s.handler = ANY (packed) AND s.category = '*' AND NOT s.by_device
            RETURNING handler
        )
        SELECT coalesce(array_agg(handler), '{}') FROM block INTO whole;
    END IF;
    IF EXISTS (SELECT FROM upstream.subscriptions WHERE handler <> ALL (whole)) THEN
        -- With what the holder asks for, if it has said so: a row is leased to it only where it asks for the category, else it
        -- would lie with a worker that knows nothing of it.
        WITH known AS MATERIALIZED (
            SELECT s.*, handler = ANY (offered) AS is_offered, handler = ANY (locals) AS is_local,
                handler = ANY (packed) AND NOT by_device AS is_packed, (
                SELECT w.categories FROM upstream.handler_workers AS w WHERE w.token = fence AND w.handler = s.handler
            ) AS asked
            FROM upstream.subscriptions AS s
            WHERE handler <> ALL (whole)
        ), wanted AS MATERIALIZED (
            SELECT
                s.handler, s.by_device, s.is_offered, s.is_local, s.is_packed AND s.asked IS NOT NULL AS is_packed, input.*,
                s.asked IS NULL OR input.category = ANY (s.asked) OR '*' = ANY (s.asked) AS is_asked
            FROM known AS s
            JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
                ON s.category = input.category OR s.category = '*'
            WHERE fresh IS NULL OR (input.key IN (SELECT unnest(fresh))) IS TRUE
        ), queue AS (
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
            )
            SELECT
                handler, key, received_at, now(), CASE WHEN by_device THEN device END,
                CASE WHEN is_offered AND is_asked THEN holder END, CASE WHEN is_offered AND is_asked THEN fence ELSE 0 END,
                CASE WHEN is_offered AND is_asked THEN now() + lease_length * interval '1 microsecond' END
            FROM wanted
            WHERE NOT (is_packed AND is_asked)
            ON CONFLICT DO NOTHING
            RETURNING 1
        ), blocks AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, handler, holder, now() + lease_length * interval '1 microsecond',
                array_agg(key), array_agg(received_at)
            -- Once each, however many of a handler's subscriptions a message matches.
            FROM (SELECT DISTINCT handler, key, received_at FROM wanted WHERE is_packed AND is_asked) AS chosen
            GROUP BY handler
            RETURNING cardinality(delivery_blocks.keys) AS size
        )
        SELECT
            EXISTS (SELECT FROM wanted WHERE NOT (is_local AND is_asked)),
            (SELECT count(*) FROM wanted) > (SELECT count(*) FROM queue) + (SELECT coalesce(sum(size), 0) FROM blocks)
        INTO is_elsewhere, is_short;
        -- Or several subscriptions of a handler match, or a message is one that the ledger has forgotten.
        IF is_short THEN
            PERFORM upstream.raise_deliveries_missing(coalesce(fresh, store_batch.keys), keys, categories, whole, fence, block);
        END IF;
        IF is_elsewhere THEN
            PERFORM pg_notify('upstream_deliveries', '');
        END IF;
    END IF;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        stored := NULL;
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
    -- A statement in WITH, or one with ON CONFLICT, on a table with rules; PostgreSQL does not say which.
    WHEN feature_not_supported THEN
        IF EXISTS (SELECT FROM pg_rules AS r WHERE r.schemaname = 'upstream') THEN
            PERFORM upstream.raise_rows_missing(
                cardinality(keys), 0, 'upstream.message_ids', 'upstream.senders', 'upstream.messages', 'upstream.deliveries',
                'upstream.delivery_blocks');
        END IF;
        RAISE;
END
$$;
COMMENT ON FUNCTION upstream.store_batch(
    uuid[], uuid[], timestamptz[], uuid[], timestamptz[], text[], text[], text[], uuid[], text[], text[], text[], text[],
    text[], text[], text, text, text, bigint, bigint, text[], text[], text[], bigint, text[], text[], boolean, boolean, boolean
) IS 'Stores the new ones of a batch of messages with their deliveries, leased to holder where offered names the handler and holder asks for the category, and in a block where packed names it. A refused batch stores nothing and is not logged; one of which less was stored than there is fails.';

-- For workers of the version before, which don't know how to register again at once.
CREATE OR REPLACE FUNCTION upstream.store_batch(
    ledger_keys uuid[], ledger_fingerprints uuid[], ledger_times timestamptz[],
    keys uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    only_sender text, only_from text,
    holder text, fence bigint, lease_length bigint, offered text[], locals text[], packed text[], block bigint,
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    origins text[];
    scopes text[];
BEGIN
    SELECT array_agg(one.sender), array_agg(upstream.id_scope(one.sender, one.id, one.key)) INTO origins, scopes
    FROM (
        SELECT DISTINCT ON (coalesce(i.sender, only_sender)) coalesce(i.sender, only_sender), i.id, i.key
        FROM unnest(senders, ids, keys) AS i (sender, id, key) ORDER BY coalesce(i.sender, only_sender)
    ) AS one (sender, id, key);
    SELECT * FROM upstream.store_batch(
        ledger_keys, ledger_fingerprints, ledger_times, keys, times, senders, ids, tokens, devices, categories, datas, raws,
        extras, types, froms, only_sender, only_from, holder, fence, lease_length, offered, locals, packed, block,
        origins, scopes, false, false, false
    ) INTO stored, refused_state, refused_table, refused_constraint;
END
$$;

-- As before, and a message that a trigger drops is left to upstream.store_batch, which says so.
CREATE OR REPLACE FUNCTION upstream.store_one(
    key uuid, fingerprint uuid, arrival timestamptz, sender text, scope text, id text, token text, device uuid, category text,
    data text, raw text, extra text, type text, stanza_from text
) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- As in upstream.store_batch: an ack relies on this commit.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('client_min_messages') = 'error' THEN
        PERFORM set_config('client_min_messages', 'warning', true);
    END IF;
    WITH ledger AS (
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT key, fingerprint, arrival
        WHERE EXISTS (SELECT FROM upstream.senders AS s WHERE s.sender_id = sender AND s.id_scope = scope)
        ON CONFLICT DO NOTHING
        RETURNING received_at
    )
    INSERT INTO upstream.messages (
        message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from
    )
    SELECT key, received_at, sender, id, token, device, category, data::json, raw, extra, type, stanza_from FROM ledger;
    -- With the ledger's row, if it has been taken: a trigger may have dropped the message.
    IF NOT FOUND THEN
        RAISE SQLSTATE 'UW001';
    END IF;
    -- Last, and by a statement of its own: that one may have waited, and handlers have subscribed meanwhile.
    IF EXISTS (SELECT FROM upstream.subscriptions) THEN
        RAISE SQLSTATE 'UW001';
    END IF;
    RETURN true;
EXCEPTION
    -- Nothing of the row may reach the server's log; upstream.store_batch says what is wrong with it.
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded OR SQLSTATE 'UW001' THEN
        RETURN false;
END
$$;

-- As in 0008, and compared.
CREATE OR REPLACE FUNCTION upstream.store_conflicts(
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
    -- A statement in WITH, or one with ON CONFLICT, on a table with rules; PostgreSQL does not say which.
    WHEN feature_not_supported THEN
        IF EXISTS (SELECT FROM pg_rules AS r WHERE r.schemaname = 'upstream') THEN
            PERFORM upstream.raise_rows_missing(cardinality(keys), 0, 'upstream.conflicts');
        END IF;
        RAISE;
END
$$;

CREATE OR REPLACE FUNCTION upstream.known_messages(keys uuid[])
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

-- Counted once for each copy. The same call may come again when its answer was lost: a copy with the row's own time has been
-- counted before. An earlier one has not, since another writer may have been faster; so a count can be too high after a lost
-- answer, and is never too low.
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
    -- A statement in WITH, or one with ON CONFLICT, on a table with rules; PostgreSQL does not say which.
    WHEN feature_not_supported THEN
        IF EXISTS (SELECT FROM pg_rules AS r WHERE r.schemaname = 'upstream') THEN
            PERFORM upstream.raise_rows_missing(cardinality(digests), 0, 'upstream.quarantine');
        END IF;
        RAISE;
END
$$;
COMMENT ON FUNCTION upstream.store_quarantine(text[], text[], text[], text[], bytea[], timestamptz[], bytea[]) IS 'Stores stanzas that no table of messages can hold, or counts them again; what is refused stores nothing and is not logged.';

-- Who may call upstream.store_batch may call these, and nobody else.
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT new.oid::regprocedure AS function,
            string_agg(DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, ', ') AS grantees
        FROM pg_catalog.pg_proc AS p,
            pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) AS a,
            pg_catalog.pg_proc AS new
        WHERE p.pronamespace = 'upstream'::regnamespace AND p.proname = 'store_batch' AND p.pronargs = 24
            AND a.grantee <> p.proowner AND new.pronamespace = p.pronamespace AND (
                new.proname IN ('store_quarantine', 'raise_rows_missing', 'raise_deliveries_missing')
                OR new.proname = 'store_batch' AND new.pronargs = 29)
        GROUP BY new.oid
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', known.function);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', known.function, known.grantees);
    END LOOP;
END
$$;

-- migrate:down
CREATE OR REPLACE FUNCTION upstream.store_one(
    key uuid, fingerprint uuid, arrival timestamptz, sender text, scope text, id text, token text, device uuid, category text,
    data text, raw text, extra text, type text, stanza_from text
) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- As in upstream.store_batch: an ack relies on this commit.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    WITH ledger AS (
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT key, fingerprint, arrival
        WHERE EXISTS (SELECT FROM upstream.senders AS s WHERE s.sender_id = sender AND s.id_scope = scope)
        ON CONFLICT DO NOTHING
        RETURNING received_at
    )
    INSERT INTO upstream.messages (
        message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from
    )
    SELECT key, received_at, sender, id, token, device, category, data::json, raw, extra, type, stanza_from FROM ledger;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Last, and by a statement of its own: that one may have waited, and handlers have subscribed meanwhile.
    IF EXISTS (SELECT FROM upstream.subscriptions) THEN
        RAISE SQLSTATE 'UW001';
    END IF;
    RETURN true;
EXCEPTION
    -- Nothing of the row may reach the server's log; upstream.store_batch says what is wrong with it.
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded OR SQLSTATE 'UW001' THEN
        RETURN false;
END
$$;

CREATE OR REPLACE FUNCTION upstream.known_messages(keys uuid[])
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

CREATE OR REPLACE FUNCTION upstream.store_batch(
    ledger_keys uuid[], ledger_fingerprints uuid[], ledger_times timestamptz[],
    keys uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    only_sender text, only_from text,
    holder text, fence bigint, lease_length bigint, offered text[], locals text[], packed text[], block bigint,
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The keys that are new; null where all are.
    fresh uuid[];
    is_elsewhere boolean;
    -- The handlers whose deliveries are in a block already: every message of the batch.
    whole text[] := '{}';
BEGIN
    -- An ack promises that neither a crash nor a failover loses it, so the commit waits for the disk and for the standbys
    -- that the server waits for, whatever its default, or the role's, is. remote_apply promises more and is kept.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    BEGIN
        INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
        SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times);
        stored := cardinality(ledger_keys);
    EXCEPTION
        WHEN unique_violation THEN
            WITH inserted AS (
                INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
                SELECT unnest(ledger_keys), unnest(ledger_fingerprints), unnest(ledger_times)
                ON CONFLICT DO NOTHING
                RETURNING message_key
            )
            SELECT coalesce(array_agg(message_key), '{}') FROM inserted INTO fresh;
            stored := cardinality(fresh);
    END;
    IF stored = 0 THEN
        RETURN;
    END IF;
    -- A worker derives all keys of a sender in one way, so any row of it tells which.
    IF only_sender IS NULL OR NOT EXISTS (
        SELECT FROM upstream.senders AS s
        WHERE s.sender_id = only_sender AND s.id_scope = upstream.id_scope(only_sender, ids[1], keys[1])
    ) THEN
        INSERT INTO upstream.senders (sender_id, id_scope)
        SELECT one.sender, upstream.id_scope(one.sender, one.id, one.key)
        FROM (
            SELECT DISTINCT ON (coalesce(i.sender, only_sender)) coalesce(i.sender, only_sender), i.id, i.key
            FROM unnest(senders, ids, keys) AS i (sender, id, key) ORDER BY coalesce(i.sender, only_sender)
        ) AS one (sender, id, key)
        WHERE NOT EXISTS (
            SELECT FROM upstream.senders AS s
            WHERE s.sender_id = one.sender AND s.id_scope = upstream.id_scope(one.sender, one.id, one.key)
        )
        ORDER BY one.sender
        ON CONFLICT DO NOTHING;
    END IF;
    IF fresh IS NULL AND only_sender IS NOT NULL THEN
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            unnest(keys), unnest(times), only_sender, unnest(ids), unnest(tokens), unnest(devices), unnest(categories),
            unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), only_from;
    ELSIF fresh IS NULL THEN
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            unnest(keys), unnest(times), unnest(senders), unnest(ids), unnest(tokens), unnest(devices),
            unnest(categories), unnest(datas)::json, unnest(raws), unnest(extras), unnest(types), unnest(froms);
    ELSE
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data, data_raw,
            extra, message_type, stanza_from
        )
        SELECT
            key, received_at, coalesce(sender, only_sender), id, token, device, category, data::json, raw, extra, type,
            coalesce(stanza_from, only_from)
        FROM unnest(keys, times, senders, ids, tokens, devices, categories, datas, raws, extras, types, froms)
            AS input (key, received_at, sender, id, token, device, category, data, raw, extra, type, stanza_from)
        WHERE (key IN (SELECT unnest(fresh))) IS TRUE;
    END IF;
    IF fresh IS NULL AND cardinality(packed) > 0 THEN
        -- The usual case at no cost for each message: a handler that takes everything, of a batch that is new throughout.
        WITH block AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, s.handler, holder, now() + lease_length * interval '1 microsecond',
                store_batch.keys, store_batch.times
            FROM upstream.subscriptions AS s
            JOIN upstream.handler_workers AS w ON w.token = fence AND w.handler = s.handler AND '*' = ANY (w.categories)
            WHERE s.handler = ANY (packed) AND s.category = '*' AND NOT s.by_device
            RETURNING handler
        )
        SELECT coalesce(array_agg(handler), '{}') FROM block INTO whole;
    END IF;
    IF EXISTS (SELECT FROM upstream.subscriptions WHERE handler <> ALL (whole)) THEN
        -- With what the holder asks for, if it has said so: a row is leased to it only where it asks for the category, else it
        -- would lie with a worker that knows nothing of it.
        WITH known AS MATERIALIZED (
            SELECT s.*, handler = ANY (offered) AS is_offered, handler = ANY (locals) AS is_local,
                handler = ANY (packed) AND NOT by_device AS is_packed, (
                SELECT w.categories FROM upstream.handler_workers AS w WHERE w.token = fence AND w.handler = s.handler
            ) AS asked
            FROM upstream.subscriptions AS s
            WHERE handler <> ALL (whole)
        ), wanted AS MATERIALIZED (
            SELECT
                s.handler, s.by_device, s.is_offered, s.is_local, s.is_packed AND s.asked IS NOT NULL AS is_packed, input.*,
                s.asked IS NULL OR input.category = ANY (s.asked) OR '*' = ANY (s.asked) AS is_asked
            FROM known AS s
            JOIN unnest(keys, times, devices, categories) AS input (key, received_at, device, category)
                ON s.category = input.category OR s.category = '*'
            WHERE fresh IS NULL OR (input.key IN (SELECT unnest(fresh))) IS TRUE
        ), queue AS (
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, device_key, lease_owner, lease_token, lease_until
            )
            SELECT
                handler, key, received_at, now(), CASE WHEN by_device THEN device END,
                CASE WHEN is_offered AND is_asked THEN holder END, CASE WHEN is_offered AND is_asked THEN fence ELSE 0 END,
                CASE WHEN is_offered AND is_asked THEN now() + lease_length * interval '1 microsecond' END
            FROM wanted
            WHERE NOT (is_packed AND is_asked)
            ON CONFLICT DO NOTHING
        ), blocks AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, handler, holder, now() + lease_length * interval '1 microsecond',
                array_agg(key), array_agg(received_at)
            -- Once each, however many of a handler's subscriptions a message matches.
            FROM (SELECT DISTINCT handler, key, received_at FROM wanted WHERE is_packed AND is_asked) AS chosen
            GROUP BY handler
        )
        SELECT EXISTS (SELECT FROM wanted WHERE NOT (is_local AND is_asked)) INTO is_elsewhere;
        IF is_elsewhere THEN
            PERFORM pg_notify('upstream_deliveries', '');
        END IF;
    END IF;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        stored := NULL;
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
END
$$;

DROP FUNCTION upstream.store_quarantine(text[], text[], text[], text[], bytea[], timestamptz[], bytea[]);
DROP FUNCTION upstream.store_batch(
    uuid[], uuid[], timestamptz[], uuid[], timestamptz[], text[], text[], text[], uuid[], text[], text[], text[], text[],
    text[], text[], text, text, text, bigint, bigint, text[], text[], text[], bigint, text[], text[], boolean, boolean, boolean
);
DROP FUNCTION upstream.raise_deliveries_missing(uuid[], uuid[], text[], text[], bigint, bigint);
DROP FUNCTION upstream.raise_rows_missing(bigint, bigint, regclass[]);

"""#),
        Migration(fileName: "0023_neighbours.sql", text: #"""
-- migrate:up
-- A publication FOR ALL TABLES refuses to update or delete rows of a table without a replica identity, and these have no key.
-- Catalog entries only: what is written to the log changes where wal_level is logical, for a few rows a day.
SET LOCAL lock_timeout = '1500ms';
ALTER TABLE upstream.retention_policy REPLICA IDENTITY FULL;
ALTER TABLE upstream.retention_runs REPLICA IDENTITY FULL;
ALTER TABLE upstream.replay_events REPLICA IDENTITY FULL;

-- As in 0012, and what a replay that has begun has yet to send counts, too.
CREATE OR REPLACE FUNCTION upstream.waiting_deliveries(since timestamptz, until timestamptz) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*)
    FROM (
        SELECT message_key, received_at FROM upstream.deliveries
        WHERE received_at >= since AND received_at < until
        UNION ALL
        SELECT entry.key, entry.at
        FROM upstream.delivery_blocks CROSS JOIN LATERAL unnest(keys, times) AS entry (key, at)
        WHERE entry.at >= since AND entry.at < until
        UNION ALL
        SELECT entry.key, entry.at
        FROM upstream.replays AS r JOIN upstream.replay_messages AS chosen USING (replay_id)
        CROSS JOIN LATERAL unnest(chosen.received_at, chosen.message_key) WITH ORDINALITY AS entry (at, key, number)
        WHERE r.state IN ('running', 'paused') AND r.first_received_at < until AND r.last_received_at >= since
            -- 1,000 messages to a row.
            AND chosen.chunk >= r.done / 1000 AND chosen.chunk::bigint * 1000 + entry.number > r.done
            AND entry.at >= since AND entry.at < until
    ) AS d
    WHERE NOT EXISTS (
        SELECT FROM upstream.dead_messages AS k
        WHERE k.message_key = d.message_key AND k.received_at = d.received_at)
$$;
COMMENT ON FUNCTION upstream.waiting_deliveries(timestamptz, timestamptz) IS 'How many deliveries need the messages of a time, in rows, in blocks, and of replays that have begun and not ended.';

-- migrate:down
CREATE OR REPLACE FUNCTION upstream.waiting_deliveries(since timestamptz, until timestamptz) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*)
    FROM (
        SELECT message_key, received_at FROM upstream.deliveries
        WHERE received_at >= since AND received_at < until
        UNION ALL
        SELECT entry.key, entry.at
        FROM upstream.delivery_blocks CROSS JOIN LATERAL unnest(keys, times) AS entry (key, at)
        WHERE entry.at >= since AND entry.at < until
    ) AS d
    WHERE NOT EXISTS (
        SELECT FROM upstream.dead_messages AS k
        WHERE k.message_key = d.message_key AND k.received_at = d.received_at)
$$;
COMMENT ON FUNCTION upstream.waiting_deliveries(timestamptz, timestamptz) IS 'How many deliveries need the messages of a time, in rows and in blocks.';
ALTER TABLE upstream.retention_policy REPLICA IDENTITY DEFAULT;
ALTER TABLE upstream.retention_runs REPLICA IDENTITY DEFAULT;
ALTER TABLE upstream.replay_events REPLICA IDENTITY DEFAULT;

"""#),
        Migration(fileName: "0024_stamps.sql", text: #"""
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

"""#),
        Migration(fileName: "0025_handler_holds.sql", text: #"""
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

"""#),
        Migration(fileName: "0029_worker_certificates.sql", text: #"""
-- migrate:up
-- For doctor: as which role a worker works, whose rights can then be looked at; and until when the certificates hold that it has
-- seen. The role has no default for rows that are there already: they would get the migrating one.
ALTER TABLE upstream.workers
    ADD COLUMN role text,
    ADD COLUMN certificates jsonb NOT NULL DEFAULT '[]';
ALTER TABLE upstream.workers
    ALTER COLUMN role SET DEFAULT current_user,
    ALTER COLUMN certificates SET STORAGE MAIN;
COMMENT ON COLUMN upstream.workers.role IS 'The role of its sessions; null in a row of a version that did not tell.';
COMMENT ON COLUMN upstream.workers.certificates IS 'The certificates that it has seen: an array with an object for each: certificate (server, client, webhook, webhook_client, console), name (the sender or handler), ends_at (seconds since 1970).';

-- migrate:down
ALTER TABLE upstream.workers DROP COLUMN certificates, DROP COLUMN role;

"""#),
    ]
}
