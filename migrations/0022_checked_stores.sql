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
        PERFORM txid_current() WHERE refused_state = '54000';
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
