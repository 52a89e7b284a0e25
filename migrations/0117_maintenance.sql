-- migrate:up
-- What people ask for in the console, whose role may do neither: a run of retention, which a worker takes, and the erasure of a
-- device, which `forget --requests` takes with the rights of the tables' owner.

CREATE TABLE upstream.maintenance_requests (
    id bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    device_key uuid,
    who text NOT NULL,
    reason text NOT NULL,
    state text NOT NULL DEFAULT 'open',
    requested_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    outcome text,
    CONSTRAINT maintenance_requests_pkey PRIMARY KEY (id),
    CONSTRAINT maintenance_requests_kind_check CHECK (kind IN ('retention', 'forget')),
    CONSTRAINT maintenance_requests_device_check CHECK ((device_key IS NOT NULL) = (kind = 'forget')),
    CONSTRAINT maintenance_requests_state_check CHECK (state IN ('open', 'running', 'done', 'failed')),
    CONSTRAINT maintenance_requests_end_check CHECK ((finished_at IS NOT NULL) = (state IN ('done', 'failed')))
);
CREATE INDEX maintenance_requests_open_idx ON upstream.maintenance_requests (kind, id) WHERE finished_at IS NULL;
COMMENT ON TABLE upstream.maintenance_requests IS 'Runs of retention and erasures of devices that people asked for in the console; ended ones are kept for 90 days. Made by upstream.request_maintenance alone.';
COMMENT ON COLUMN upstream.maintenance_requests.id IS 'Names the request; gaps are normal.';
COMMENT ON COLUMN upstream.maintenance_requests.kind IS 'retention or forget.';
COMMENT ON COLUMN upstream.maintenance_requests.device_key IS 'The device to erase; null with retention.';
COMMENT ON COLUMN upstream.maintenance_requests.who IS 'Who asked: the name that somebody signed in to the console with.';
COMMENT ON COLUMN upstream.maintenance_requests.reason IS 'Why, in their own words.';
COMMENT ON COLUMN upstream.maintenance_requests.state IS 'open, running (or broken off: it is taken again), done or failed.';
COMMENT ON COLUMN upstream.maintenance_requests.requested_at IS 'When they asked.';
COMMENT ON COLUMN upstream.maintenance_requests.started_at IS 'When it was taken last.';
COMMENT ON COLUMN upstream.maintenance_requests.finished_at IS 'When it ended.';
COMMENT ON COLUMN upstream.maintenance_requests.outcome IS 'What was deleted, or why nothing was.';
COMMENT ON SEQUENCE upstream.maintenance_requests_id_seq IS 'Where maintenance_requests.id comes from.';

CREATE FUNCTION upstream.request_maintenance(kind text, device uuid, who text, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    request bigint;
BEGIN
    IF (request_maintenance.kind IN ('retention', 'forget')) IS NOT TRUE
        OR (request_maintenance.kind = 'forget') <> (request_maintenance.device IS NOT NULL)
        OR btrim(coalesce(request_maintenance.who, '')) = '' OR btrim(coalesce(request_maintenance.reason, '')) = ''
    THEN
        RAISE EXCEPTION 'a request names its kind, who asks and why; forget a device, and retention none' USING ERRCODE = '22023';
    END IF;
    -- By its messages a device is known: from one of them the erasure takes what it looks for in quarantined stanzas.
    IF request_maintenance.kind = 'forget'
        AND NOT EXISTS (SELECT FROM upstream.messages AS m WHERE m.device_key = request_maintenance.device)
        AND NOT EXISTS (SELECT FROM upstream.dead_messages AS m WHERE m.device_key = request_maintenance.device)
        AND NOT EXISTS (SELECT FROM upstream.conflicts AS m WHERE m.device_key = request_maintenance.device)
    THEN
        RAISE EXCEPTION 'no message of this device is stored' USING ERRCODE = '22023';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('upstream.maintenance_requests', 0));
    DELETE FROM upstream.maintenance_requests WHERE finished_at < now() - interval '90 days';
    SELECT r.id INTO request FROM upstream.maintenance_requests AS r
    WHERE r.finished_at IS NULL AND r.kind = request_maintenance.kind
        AND r.device_key IS NOT DISTINCT FROM request_maintenance.device;
    IF FOUND THEN
        RETURN request;
    END IF;
    IF (SELECT count(*) FROM upstream.maintenance_requests WHERE finished_at IS NULL) >= 100 THEN
        RETURN NULL;
    END IF;
    INSERT INTO upstream.maintenance_requests (kind, device_key, who, reason, requested_at)
    VALUES (
        request_maintenance.kind, request_maintenance.device, left(request_maintenance.who, 200),
        left(request_maintenance.reason, 1000), clock_timestamp())
    RETURNING id INTO request;
    RETURN request;
END
$$;
REVOKE ALL ON FUNCTION upstream.request_maintenance(text, uuid, text, text) FROM PUBLIC;
COMMENT ON FUNCTION upstream.request_maintenance(text, uuid, text, text) IS 'Asks for a run of retention, or for a device''s erasure; gives the request''s id, an open one''s if there is one, or null where 100 are open.';

CREATE FUNCTION upstream.take_retention_request() RETURNS TABLE (id bigint, who text, reason text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE upstream.maintenance_requests SET state = 'running', started_at = clock_timestamp()
    WHERE id = (
        SELECT id FROM upstream.maintenance_requests
        -- Taken, and not ended for so long: its worker died, or takes long, and then two do no harm.
        WHERE finished_at IS NULL AND kind = 'retention' AND (started_at IS NULL OR started_at < now() - interval '10 minutes')
        ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING id, who, reason
$$;
REVOKE ALL ON FUNCTION upstream.take_retention_request() FROM PUBLIC;
COMMENT ON FUNCTION upstream.take_retention_request() IS 'Takes a request for a run of retention, for a worker; nothing if there is none.';

CREATE FUNCTION upstream.finish_retention_request(request bigint, state text, outcome text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE upstream.maintenance_requests AS r
    SET state = finish_retention_request.state, outcome = left(finish_retention_request.outcome, 1000),
        finished_at = clock_timestamp()
    WHERE r.id = request AND r.kind = 'retention' AND r.state = 'running'
$$;
REVOKE ALL ON FUNCTION upstream.finish_retention_request(bigint, text, text) FROM PUBLIC;
COMMENT ON FUNCTION upstream.finish_retention_request(bigint, text, text) IS 'Ends a request that upstream.take_retention_request gave: done or failed, with its outcome.';

-- Who starts jobs may ask; who runs retention takes what is asked. Reading is granted for tables to come (ALTER DEFAULT PRIVILEGES).
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT DISTINCT held.grantee::regrole::text AS grantee
        FROM pg_catalog.pg_class AS c CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS held
        WHERE c.oid = 'upstream.jobs'::regclass AND held.privilege_type = 'INSERT' AND held.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION upstream.request_maintenance(text, uuid, text, text) TO %s', known.grantee);
    END LOOP;
    FOR known IN
        SELECT DISTINCT held.grantee::regrole::text AS grantee
        FROM pg_catalog.pg_proc AS p CROSS JOIN LATERAL pg_catalog.aclexplode(p.proacl) AS held
        WHERE p.pronamespace = 'upstream'::regnamespace AND p.proname = 'purge_audit' AND held.grantee NOT IN (0, p.proowner)
    LOOP
        EXECUTE format(
            'GRANT EXECUTE ON FUNCTION upstream.take_retention_request(), upstream.finish_retention_request(bigint, text, text) TO %s',
            known.grantee);
    END LOOP;
END
$$;

-- migrate:down
DROP FUNCTION upstream.finish_retention_request, upstream.take_retention_request, upstream.request_maintenance;
DROP TABLE upstream.maintenance_requests;
