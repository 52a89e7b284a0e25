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
