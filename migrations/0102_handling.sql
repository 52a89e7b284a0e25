-- migrate:up
-- Handling: who gets a message, what still has to be handled, what gave up, and what was tried.
--
-- Each worker says in upstream.handler_workers what it asks for; their union is upstream.subscriptions. A new message gets a row of
-- upstream.deliveries for each subscribed handler in its own transaction, or a place in a block where the storing worker handles it
-- itself. Success deletes it; giving up makes it a dead letter. Attempts are kept beside that, as history.

CREATE TABLE upstream.handlers (
    name text NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    paused_until timestamptz,
    paused_reason text,
    paused_at timestamptz,
    registered_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    held_until timestamptz,
    held_reason text,
    resumed_at timestamptz,
    CONSTRAINT handlers_pkey PRIMARY KEY (name)
);
COMMENT ON TABLE upstream.handlers IS 'The handlers that workers have registered, and whether they are paused.';
COMMENT ON COLUMN upstream.handlers.name IS 'The configured name.';
COMMENT ON COLUMN upstream.handlers.paused IS 'Whether no delivery may be claimed; see paused_until.';
COMMENT ON COLUMN upstream.handlers.paused_until IS 'When a pause ends by itself; null where it lasts until it is resumed.';
COMMENT ON COLUMN upstream.handlers.paused_reason IS 'Who or what paused it, and why.';
COMMENT ON COLUMN upstream.handlers.paused_at IS 'When it was paused.';
COMMENT ON COLUMN upstream.handlers.registered_at IS 'When a worker first registered it; it gets messages received from then on.';
COMMENT ON COLUMN upstream.handlers.seen_at IS 'When a worker that runs it was last seen, to half a minute.';
COMMENT ON COLUMN upstream.handlers.held_until IS 'Until when the handler asked for a pause (Retry-After): no attempt begins before, in any worker; null, or past, where it did not.';
COMMENT ON COLUMN upstream.handlers.held_reason IS 'What it answered then.';
COMMENT ON COLUMN upstream.handlers.resumed_at IS 'When an operator resumed the handler last, or had its deliveries retried at once: workers then close its circuit breaker.';

-- A worker that restarts with an older configuration must not end what another still wants.
CREATE TABLE upstream.handler_workers (
    token bigint NOT NULL,
    handler text NOT NULL,
    worker text NOT NULL,
    categories text[] NOT NULL,
    by_device boolean NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    alive_since timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    share double precision NOT NULL DEFAULT 0,
    share_most double precision NOT NULL DEFAULT 0,
    share_until timestamptz,
    filter jsonb,
    CONSTRAINT handler_workers_pkey PRIMARY KEY (token, handler),
    CONSTRAINT handler_workers_handler_fkey FOREIGN KEY (handler) REFERENCES upstream.handlers ON DELETE CASCADE
);
CREATE INDEX handler_workers_handler_idx ON upstream.handler_workers (handler);
COMMENT ON TABLE upstream.handler_workers IS 'What each worker asks for, by handler; upstream.subscriptions is the union over the workers that run the handler.';
COMMENT ON COLUMN upstream.handler_workers.token IS 'Names the process: the fencing token of the rows that it inserts under its own lease.';
COMMENT ON COLUMN upstream.handler_workers.handler IS 'The handler.';
COMMENT ON COLUMN upstream.handler_workers.worker IS 'The process for people: host and process id.';
COMMENT ON COLUMN upstream.handler_workers.categories IS 'The categories it asks for: names, prefixes that end with .*, or * for all.';
COMMENT ON COLUMN upstream.handler_workers.by_device IS 'Whether it takes each device''s messages one at a time, in arrival order.';
COMMENT ON COLUMN upstream.handler_workers.filter IS 'The clauses of where, which all must hold (upstream.wants); null where it wants every message of its categories.';
COMMENT ON COLUMN upstream.handler_workers.started_at IS 'When it registered.';
COMMENT ON COLUMN upstream.handler_workers.alive_since IS 'Since when its heartbeats have come without a gap: after an outage nobody is in a position to judge others.';
COMMENT ON COLUMN upstream.handler_workers.heartbeat_at IS 'When it was last heard of, to half a minute.';
COMMENT ON COLUMN upstream.handler_workers.share IS 'Its share of the handler''s limit over all workers, from 0 to 1.';
COMMENT ON COLUMN upstream.handler_workers.share_most IS 'The greatest share that it could use.';
COMMENT ON COLUMN upstream.handler_workers.share_until IS 'Until when it may use its share; null where it keeps no limit over all workers.';

CREATE TABLE upstream.subscriptions (
    handler text NOT NULL,
    category text NOT NULL,
    by_device boolean NOT NULL DEFAULT false,
    filters jsonb,
    CONSTRAINT subscriptions_pkey PRIMARY KEY (handler, category),
    CONSTRAINT subscriptions_handler_fkey FOREIGN KEY (handler) REFERENCES upstream.handlers ON DELETE CASCADE
);
CREATE INDEX subscriptions_category_idx ON upstream.subscriptions (category);
COMMENT ON TABLE upstream.subscriptions IS 'Which handler gets which category; read by every worker as it stores messages.';
COMMENT ON COLUMN upstream.subscriptions.handler IS 'The handler.';
COMMENT ON COLUMN upstream.subscriptions.category IS 'A category, a prefix of categories that ends with .*, or * for all.';
COMMENT ON COLUMN upstream.subscriptions.by_device IS 'Whether the handler takes each device''s messages one at a time, in arrival order.';
COMMENT ON COLUMN upstream.subscriptions.filters IS 'The filters of its workers, of which one must hold (upstream.wants); null where a worker wants every message.';

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
ALTER TABLE upstream.deliveries ALTER COLUMN last_error SET STATISTICS 0;
-- Claims go on behind the last one, so that what was claimed, and what is left of it as long as an old snapshot is open,
-- is not read again; ties are told apart by the other columns.
CREATE INDEX deliveries_claim_idx ON upstream.deliveries (handler, next_attempt_at, received_at, message_key);
-- Small ones beside it: what may bring workers down, and the queues of devices.
CREATE INDEX deliveries_crashes_idx ON upstream.deliveries (handler, next_attempt_at) WHERE crashes > 0;
CREATE INDEX deliveries_device_idx ON upstream.deliveries (handler, device_key, received_at, message_key)
    WHERE device_key IS NOT NULL;
-- How many deliveries of a replay still wait is asked for all the time while it runs.
CREATE INDEX deliveries_replay_id_idx ON upstream.deliveries (replay_id) WHERE replay_id IS NOT NULL;
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
ALTER TABLE upstream.dead_letters ALTER COLUMN last_error SET STATISTICS 0;
CREATE INDEX dead_letters_died_at_idx ON upstream.dead_letters (died_at);
CREATE INDEX dead_letters_handler_died_at_idx ON upstream.dead_letters (handler, died_at);
-- For everything that is asked of a group: which there are, how many it holds, its first and last, and its letters in their order, each
-- without reading the others.
CREATE INDEX dead_letters_handler_group_idx ON upstream.dead_letters (handler, error_group, died_at);
COMMENT ON TABLE upstream.dead_letters IS 'Deliveries that gave up, until they are retried, discarded or older than retention_policy.dead_letters.';
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
COMMENT ON COLUMN upstream.dead_messages.received_at IS 'When the worker had parsed the stanza.';

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

-- What a worker asks for.

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
    -- A filter ends what another worker still wants, too: what any of them wants is delivered.
    INSERT INTO upstream.subscriptions AS known (handler, category, by_device, filters)
    SELECT DISTINCT w.handler, asked.category, a.by_device, a.filters
    FROM upstream.handler_workers AS w
    JOIN (
        SELECT handler, bool_or(by_device) AS by_device,
            CASE WHEN bool_and(filter IS NOT NULL) THEN jsonb_agg(DISTINCT filter) END AS filters
        FROM upstream.handler_workers WHERE handler = ANY (names) GROUP BY handler
    ) AS a ON a.handler = w.handler
    CROSS JOIN LATERAL unnest(w.categories) AS asked (category)
    ORDER BY 1, 2
    ON CONFLICT (handler, category) DO UPDATE SET by_device = excluded.by_device, filters = excluded.filters
        WHERE known.by_device <> excluded.by_device OR known.filters IS DISTINCT FROM excluded.filters;
END
$$;
COMMENT ON FUNCTION upstream.derive_subscriptions(text[]) IS 'Makes the subscriptions of these handlers what their workers ask for; those of a handler that no worker runs stay.';

CREATE FUNCTION upstream.register_handlers(
    previous bigint, process bigint, who text, names text[], devices boolean[], filters text[], askers text[], asked text[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Only here can a regular expression be judged; one that is none matches no message.
    PERFORM '' ~ (clause->>'is')
    FROM unnest(filters) AS own (filter), jsonb_array_elements(nullif(own.filter, '')::jsonb) AS clause
    WHERE clause->>'test' = '~';
    INSERT INTO upstream.handlers (name) SELECT * FROM unnest(names) ORDER BY 1
    ON CONFLICT ON CONSTRAINT handlers_pkey DO UPDATE SET seen_at = now();
    DELETE FROM upstream.handler_workers WHERE token IN (previous, process) AND token <> 0;
    INSERT INTO upstream.handler_workers (token, handler, worker, categories, by_device, filter)
    SELECT process, own.handler, who, ARRAY(
        SELECT category FROM unnest(askers, asked) AS pair (handler, category) WHERE pair.handler = own.handler
    ), own.device, nullif(own.filter, '')::jsonb
    FROM unnest(names, devices, filters) AS own (handler, device, filter);
    PERFORM upstream.derive_subscriptions(names);
END
$$;
COMMENT ON FUNCTION upstream.register_handlers(bigint, bigint, text, text[], boolean[], text[], text[], text[]) IS 'Notes what a worker asks for, in the place of what the same process asked for before, and subscribes its handlers.';

-- No handler's heartbeat waits for a lock that somebody holds on another's row: what is locked is left to the next one. And every worker
-- takes over what is left of those that died.
CREATE FUNCTION upstream.keep_handlers(process bigint) RETURNS bigint
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
COMMENT ON FUNCTION upstream.keep_handlers(bigint) IS 'A worker''s heartbeat; gives the number of handlers it is known to run.';

-- The shares of all workers never add up to more than the whole: what another holds is taken only after it has given it up, or after its
-- time. Everybody is left an equal share; who could use more gets what no other can.
CREATE FUNCTION upstream.take_share(
    process bigint, handler_name text, whole bigint, most bigint, busy bigint, duration interval
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    equal double precision;
    held double precision;
    kept double precision;
    own bigint;
BEGIN
    PERFORM 1 FROM upstream.handlers WHERE name = handler_name FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT (whole / (count(*) + 1))::double precision / whole INTO equal
    FROM upstream.handler_workers
    WHERE handler = handler_name AND token <> process AND share_until > clock_timestamp();
    SELECT coalesce(sum(share), 0), coalesce(sum(greatest(share, least(equal, share_most))), 0) INTO held, kept
    FROM upstream.handler_workers
    WHERE handler = handler_name AND token <> process AND share_until > clock_timestamp();
    -- What runs already keeps its place. Sums of fractions are a little off.
    own := least(most, greatest(
        0, floor(whole * (1 - kept) + 0.000001), least(busy, floor(whole * (1 - held) + 0.000001))
    ));
    UPDATE upstream.handler_workers
    SET share = own::double precision / whole, share_most = least(1, most::double precision / whole),
        share_until = clock_timestamp() + duration
    WHERE token = process AND handler = handler_name;
    RETURN CASE WHEN FOUND THEN own END;
END
$$;
COMMENT ON FUNCTION upstream.take_share(bigint, text, bigint, bigint, bigint, interval) IS 'Gives a worker its part of a handler''s limit over all workers, in parts of whole, for a time; null if the handler''s row is locked or the worker is not registered.';

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

-- What a delivery is about, wherever it is kept. A released conflict stays in conflicts, so that messages keeps one row for each id; LIMIT
-- 1 spares the look-up there for all deliveries of messages. Without SET, so that it is inlined.
CREATE FUNCTION upstream.message_of(key uuid, arrival timestamptz) RETURNS SETOF upstream.messages
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

-- Blocks into rows. A message that was erased meanwhile gets no row, which nobody could deliver.
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

-- The same where attempts are kept: what is done is written to attempt_batches.
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

-- What is left of workers that died.
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
    RETURN found;
END
$$;
COMMENT ON FUNCTION upstream.unpack_expired() IS 'Turns the blocks whose lease has ended into rows of upstream.deliveries, for others to claim; gives their number.';

-- Storing messages with their deliveries.

-- The functions here cost next to nothing to the planner: else it would plan the statement that calls them anew for each batch.
CREATE FUNCTION upstream.asks(entries text[], category text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE COST 1 AS $$
BEGIN
    RETURN category = ANY (entries) OR EXISTS (
        SELECT FROM unnest(entries) AS each (entry)
        WHERE right(entry, 1) = '*' AND starts_with(category, left(entry, -1))
    );
END
$$;
COMMENT ON FUNCTION upstream.asks(text[], text) IS 'Whether a category is one of these, or has a prefix that is one of them.';

-- Clauses hold here as for `messages list --where`, where they are written as SQL: a test compares both. What can't be judged is no match.
-- Without SET, which would cost half as much as the rest: upstream.store_batch sets it.
CREATE FUNCTION upstream.wants(filters jsonb, data text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE COST 1 AS $$
DECLARE
    body jsonb;
    clause jsonb;
    value jsonb;
    holds boolean;
BEGIN
    body := data;
    FOR f IN 0 .. jsonb_array_length(filters) - 1 LOOP
        holds := true;
        FOR c IN 0 .. jsonb_array_length(filters->f) - 1 LOOP
            clause := filters->f->c;
            value := body #> (clause->>'path')::text[];
            holds := CASE clause->>'test'
                WHEN 'exists' THEN value IS NOT NULL
                WHEN '=' THEN value = clause->'is' OR value = clause->'or'
                WHEN '!=' THEN (value = clause->'is' OR value = clause->'or') IS NOT TRUE
                WHEN '~' THEN (value #>> '{}') ~ (clause->>'is')
                WHEN '<' THEN jsonb_path_exists(value, 'strict $ ? (@ < $is)', clause)
                WHEN '<=' THEN jsonb_path_exists(value, 'strict $ ? (@ <= $is)', clause)
                WHEN '>' THEN jsonb_path_exists(value, 'strict $ ? (@ > $is)', clause)
                WHEN '>=' THEN jsonb_path_exists(value, 'strict $ ? (@ >= $is)', clause)
            END;
            EXIT WHEN holds IS NOT TRUE;
        END LOOP;
        IF holds THEN RETURN true; END IF;
    END LOOP;
    RETURN false;
EXCEPTION
    -- The data is a stranger's, and an ack may wait for this.
    WHEN data_exception OR program_limit_exceeded THEN
        RETURN false;
END
$$;
COMMENT ON FUNCTION upstream.wants(jsonb, text) IS 'Whether a message with this data passes one of the filters of upstream.subscriptions, each an array of clauses that all must hold; false, and never an error, where that can''t be judged.';

CREATE FUNCTION upstream.raise_deliveries_missing(
    fresh uuid[], keys uuid[], categories text[], datas text[], whole text[], fence bigint, block bigint
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted bigint;
    missing bigint;
BEGIN
    WITH asked AS MATERIALIZED (
        SELECT DISTINCT s.handler, input.key
        FROM upstream.subscriptions AS s
        JOIN unnest(keys, categories, datas) AS input (key, category, data)
            ON s.category = input.category OR right(s.category, 1) = '*' AND starts_with(input.category, left(s.category, -1))
        WHERE s.handler <> ALL (whole) AND input.key = ANY (fresh)
            AND (s.filters IS NULL OR upstream.wants(s.filters, input.data))
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
COMMENT ON FUNCTION upstream.raise_deliveries_missing(uuid[], uuid[], text[], text[], text[], bigint, bigint) IS 'Fails where a subscribed handler has neither a delivery nor a block of the messages just stored.';

-- One batch of the receive path: new ledger rows, their bodies and their deliveries (Benchmarks/Store measures the variants).
-- Nearly every batch holds new messages alone, so that is tried first, as plainly as PostgreSQL can do it:
--
-- * the ledger by a plain INSERT: no speculative insertion, nothing returned; a known key is a unique violation, caught
--   here, and only then is the batch sorted out row by row; is_mixed says that this is likely, and skips the try;
-- * SELECT unnest(a), unnest(b) … in the target list: no function scan and no tuple store under it;
-- * the ledger's rows in the order of their keys, so that two writers never deadlock; the bodies in the order of their
--   arrival, so that the indexes that begin with a time grow at their right edge;
-- * a column that is null in the whole batch is an empty array (unnest side by side fills up with nulls); where sender and
--   stanza_from are the same in the whole batch they are one value each, only_sender and only_from, and their arrays empty;
-- * nothing is queued where no handler is subscribed.
--
-- Rows are leased to holder, with the token fence, where offered names the handler and holder asks for the category. Those of the
-- handlers in packed go into a block each, with the number block. origins and scopes are the rows of upstream.senders that these
-- messages need; is_registered says that the handlers in locals have to be known as the holder's. What comes back in is_elsewhere says
-- that others have deliveries to fetch, of which the caller tells them after the commit: with a NOTIFY in it, this transaction would
-- have all others like it on the server wait for its commit, and that for the standby.
--
-- IS TRUE keeps the planner from making a join of the look-ups in fresh, whose size it can't know: a hashed subplan is
-- right at every batch size.
CREATE FUNCTION upstream.store_batch(
    ledger_keys uuid[], ledger_fingerprints uuid[], ledger_times timestamptz[],
    keys uuid[], times timestamptz[], senders text[], ids text[], tokens text[], devices uuid[],
    categories text[], datas text[], raws text[], extras text[], types text[], froms text[],
    only_sender text, only_from text,
    holder text, fence bigint, lease_length bigint, offered text[], locals text[], packed text[], block bigint,
    origins text[], scopes text[], is_registered boolean, is_mixed boolean, is_retry boolean,
    OUT stored bigint, OUT refused_state text, OUT refused_table text, OUT refused_constraint text, OUT is_elsewhere boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The keys that are new; null where all are.
    fresh uuid[];
    taken bigint;
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
    -- A rule may have stored them elsewhere, which counts as much. Looked for here, where both tables are locked: it neither comes nor
    -- goes now.
    PERFORM upstream.raise_rows_missing(stored, 0, 'upstream.message_ids', 'upstream.messages')
    FROM pg_rewrite AS r
    WHERE r.ev_class IN ('upstream.message_ids'::regclass, 'upstream.messages'::regclass)
        AND r.ev_type = '3' AND r.is_instead AND r.ev_enabled <> 'D' AND r.ev_qual::text = '<>';
    IF fresh IS NULL AND cardinality(packed) > 0 THEN
        -- The usual case at no cost for each message: a handler that takes everything, of a batch that is new throughout.
        WITH block AS (
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT
                fence, store_batch.block, s.handler, holder, now() + lease_length * interval '1 microsecond',
                store_batch.keys, store_batch.times
            FROM upstream.subscriptions AS s
            JOIN upstream.handler_workers AS w ON w.token = fence AND w.handler = s.handler AND '*' = ANY (w.categories)
            WHERE s.handler = ANY (packed) AND s.category = '*' AND NOT s.by_device AND s.filters IS NULL
            RETURNING handler
        )
        SELECT coalesce(array_agg(handler), '{}') FROM block INTO whole;
    END IF;
    IF EXISTS (SELECT FROM upstream.subscriptions WHERE handler <> ALL (whole)) THEN
        -- With what the holder asks for, if it has said so: a row is leased to it only where it asks for the category, else it
        -- would lie with a worker that knows nothing of it. What a filter lets pass the holder does not know: it learns
        -- that there is some as others do.
        WITH known AS MATERIALIZED (
            SELECT s.*, handler = ANY (offered) AND filters IS NULL AS is_offered, handler = ANY (locals) AND filters IS NULL AS is_local,
                handler = ANY (packed) AND NOT by_device AND filters IS NULL AS is_packed, (
                SELECT w.categories FROM upstream.handler_workers AS w WHERE w.token = fence AND w.handler = s.handler
            ) AS asked, CASE WHEN right(category, 1) = '*' THEN left(category, -1) END AS prefix
            FROM upstream.subscriptions AS s
            WHERE handler <> ALL (whole)
        ), wanted AS MATERIALIZED (
            SELECT
                s.handler, s.by_device, s.is_offered, s.is_local, s.is_packed AND s.asked IS NOT NULL AS is_packed,
                input.key, input.received_at, input.device,
                s.asked IS NULL OR s.category = ANY (s.asked) OR upstream.asks(s.asked, input.category) AS is_asked
            FROM known AS s
            -- Where nobody looks at data it costs nothing.
            JOIN unnest(
                keys, times, devices, categories, CASE WHEN EXISTS (SELECT FROM known WHERE filters IS NOT NULL) THEN datas END
            ) AS input (key, received_at, device, category, data)
                ON CASE WHEN s.category = input.category OR starts_with(input.category, s.prefix)
                    THEN s.filters IS NULL OR upstream.wants(s.filters, input.data) END
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
            PERFORM upstream.raise_deliveries_missing(
                coalesce(fresh, store_batch.keys), keys, categories, datas, whole, fence, block);
        END IF;
    END IF;
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        stored := NULL;
        GET STACKED DIAGNOSTICS
            refused_state = RETURNED_SQLSTATE, refused_table = TABLE_NAME, refused_constraint = CONSTRAINT_NAME;
        -- So fails a server that gives out no transaction ids any more: then this fails likewise, and nobody catches it.
        PERFORM txid_current() WHERE refused_state = '54000';
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
    -- Last, and by a statement of its own: that one may have waited, and handlers have subscribed meanwhile. Or a rule has stored it
    -- elsewhere.
    IF EXISTS (SELECT FROM upstream.subscriptions) OR EXISTS (
        SELECT FROM pg_rewrite AS r
        WHERE r.ev_class = 'upstream.messages'::regclass AND r.ev_type = '3' AND r.is_instead AND r.ev_enabled <> 'D'
    ) THEN
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

-- The history of attempts.

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
COMMENT ON FUNCTION upstream.attempts_of(uuid) IS 'The attempts at one message, by handlers and in no order: found by an index. For a message whose id the ledger still knows.';

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
COMMENT ON FUNCTION upstream.attempts_of(uuid, timestamptz) IS 'As attempts_of(key), for a message of which received_at is known.';

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

-- migrate:down
DROP FUNCTION
    upstream.attempt_partitions, upstream.attempts_of(uuid, timestamptz), upstream.attempts_of(uuid), upstream.store_one,
    upstream.store_batch, upstream.raise_deliveries_missing, upstream.wants, upstream.asks, upstream.unpack_expired,
    upstream.unpack_deliveries(bigint, text, bigint[], uuid[], text, real[], real[]),
    upstream.unpack_deliveries(bigint, text, bigint[], uuid[]), upstream.message_of, upstream.withdraw_handlers, upstream.take_share,
    upstream.keep_handlers, upstream.register_handlers, upstream.derive_subscriptions;
DROP VIEW upstream.attempts;
DROP TABLE upstream.attempt_batches, upstream.dead_messages, upstream.dead_letters, upstream.delivery_blocks, upstream.deliveries;
DROP SEQUENCE upstream.lease_tokens;
DROP TABLE upstream.subscriptions, upstream.handler_workers, upstream.handlers;
