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
