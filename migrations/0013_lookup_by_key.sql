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
