-- migrate:up
-- What `forget` erased, for copies of messages elsewhere: docs/cdc.md. Rows are only ever added, in the transaction that deletes the
-- message, so that a copy that follows in order of commits has the message before it has its erasure.

CREATE TABLE upstream.erasures (
    id bigint GENERATED ALWAYS AS IDENTITY,
    device_key uuid NOT NULL,
    message_key uuid,
    erased_at timestamptz NOT NULL,
    CONSTRAINT erasures_pkey PRIMARY KEY (id)
);
CREATE INDEX erasures_erased_at_idx ON upstream.erasures (erased_at);
COMMENT ON TABLE upstream.erasures IS 'What `forget` erased, for copies of messages elsewhere: a row for each message, and one for the device. Kept for 30 days.';
COMMENT ON COLUMN upstream.erasures.id IS 'Names the row; gaps are normal.';
COMMENT ON COLUMN upstream.erasures.device_key IS 'The device: delete no other''s message, for a conflict has the key of the message that it conflicts with.';
COMMENT ON COLUMN upstream.erasures.message_key IS 'The message; null for all that was received from the device up to erased_at, on days that were dropped long ago, too.';
COMMENT ON COLUMN upstream.erasures.erased_at IS 'When it was erased; of the row for the device, when `forget` began.';
COMMENT ON SEQUENCE upstream.erasures_id_seq IS 'Where erasures.id comes from.';

CREATE FUNCTION upstream.purge_erasures(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.erasures WHERE id IN (
        SELECT id FROM upstream.erasures WHERE erased_at < now() - interval '30 days' ORDER BY erased_at LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_erasures(integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_erasures(integer) IS 'Deletes erasures that are older than 30 days: most of them at once. Null where another worker is at it.';

-- Who runs retention runs this, too. Reading is granted for tables to come (ALTER DEFAULT PRIVILEGES).
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT DISTINCT held.grantee::regrole::text AS grantee
        FROM pg_catalog.pg_proc AS p CROSS JOIN LATERAL pg_catalog.aclexplode(p.proacl) AS held
        WHERE p.pronamespace = 'upstream'::regnamespace AND p.proname = 'purge_audit' AND held.grantee NOT IN (0, p.proowner)
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION upstream.purge_erasures(integer) TO %s', known.grantee);
    END LOOP;
END
$$;

-- migrate:down
DROP FUNCTION upstream.purge_erasures;
DROP TABLE upstream.erasures;
