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
