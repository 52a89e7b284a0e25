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
