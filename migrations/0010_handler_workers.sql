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
