-- migrate:up
-- Console: what people did, what runs, and what the console needs for itself.

-- What people did. Nobody has a right to the table but to read it: an entry is made by upstream.record_audit, which itself says when
-- and by which role, in the transaction of what it is about.
CREATE TABLE upstream.audit (
    id bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL,
    who text NOT NULL,
    role text NOT NULL,
    via text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    count bigint,
    reason text,
    CONSTRAINT audit_pkey PRIMARY KEY (id),
    CONSTRAINT audit_via_check CHECK (via IN ('command', 'console')),
    CONSTRAINT audit_count_check CHECK (count >= 0)
);
CREATE INDEX audit_at_idx ON upstream.audit (at);
CREATE INDEX audit_who_idx ON upstream.audit (who, id);
CREATE INDEX audit_action_idx ON upstream.audit (action, id);
COMMENT ON SEQUENCE upstream.audit_id_seq IS 'Where audit.id comes from.';
COMMENT ON TABLE upstream.audit IS 'What people did, by command or console: append-only, kept for 730 days; see upstream.record_audit.';
COMMENT ON COLUMN upstream.audit.id IS 'Grows from entry to entry.';
COMMENT ON COLUMN upstream.audit.at IS 'When, by the database''s clock.';
COMMENT ON COLUMN upstream.audit.who IS 'Who: the operating system''s user and host of a command, or the name that somebody signed in to the console with.';
COMMENT ON COLUMN upstream.audit.role IS 'The database role of the session.';
COMMENT ON COLUMN upstream.audit.via IS 'command or console.';
COMMENT ON COLUMN upstream.audit.action IS 'What, such as dead.retry. An action of several transactions has an entry before the first, and one that ends in .finished after the last.';
COMMENT ON COLUMN upstream.audit.subject IS 'To what: a handler, a filter, a device_key; never a registration token or a payload.';
COMMENT ON COLUMN upstream.audit.count IS 'To how many rows; null where that is not known, or means nothing.';
COMMENT ON COLUMN upstream.audit.reason IS 'Why, in the words of whoever did it.';

-- Holds for the table's owner as well: a mistake in a statement changes no entry. Only what has expired can be deleted.
CREATE FUNCTION upstream.guard_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND old.at < now() - interval '730 days' THEN
        RETURN old;
    END IF;
    RAISE EXCEPTION 'upstream.audit is append-only' USING ERRCODE = '42501';
END
$$;
COMMENT ON FUNCTION upstream.guard_audit() IS 'Refuses to change the audit trail.';
CREATE TRIGGER audit_row_guard BEFORE UPDATE OR DELETE ON upstream.audit FOR EACH ROW EXECUTE FUNCTION upstream.guard_audit();
CREATE TRIGGER audit_table_guard BEFORE TRUNCATE ON upstream.audit FOR EACH STATEMENT EXECUTE FUNCTION upstream.guard_audit();

-- The bound is one of time alone, so that nobody pushes an entry out by making many; see upstream.purge_audit.
CREATE FUNCTION upstream.record_audit(who text, via text, action text, subject text, count bigint, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    entry bigint;
BEGIN
    INSERT INTO upstream.audit (at, who, role, via, action, subject, count, reason)
    VALUES (
        clock_timestamp(), left(record_audit.who, 200), session_user, record_audit.via, left(record_audit.action, 64),
        left(record_audit.subject, 1000), record_audit.count, left(record_audit.reason, 1000))
    RETURNING id INTO entry;
    RETURN entry;
END
$$;
REVOKE ALL ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text) FROM PUBLIC;
COMMENT ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text) IS 'Adds an entry to the audit trail, with the time and the session''s role; gives its id.';

-- For a worker's retention, which first compares this server's clock with its own: a clock that is years ahead deletes nothing.
CREATE FUNCTION upstream.purge_audit(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.audit WHERE id IN (
        SELECT id FROM upstream.audit WHERE at < now() - interval '730 days' ORDER BY at LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_audit(integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_audit(integer) IS 'Deletes entries of the audit trail that are older than 730 days: most of them at once. Null where another worker is at it.';

-- What runs now, for those who have no way to the workers' own ports: the console, and people with psql. Each process writes
-- its one row every few seconds; nothing is decided by it.
CREATE TABLE upstream.workers (
    instance uuid NOT NULL,
    worker text NOT NULL,
    version text NOT NULL,
    roles text[] NOT NULL,
    started_at timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    stopping boolean NOT NULL,
    in_flight bigint NOT NULL,
    streams jsonb NOT NULL,
    rates jsonb NOT NULL,
    handlers jsonb NOT NULL,
    role text DEFAULT current_user,
    certificates jsonb NOT NULL DEFAULT '[]',
    CONSTRAINT workers_pkey PRIMARY KEY (instance)
    -- No index but that of the key, and room on the page: an update touches nothing else.
) WITH (fillfactor = 40, autovacuum_vacuum_threshold = 1000);
ALTER TABLE upstream.workers
    ALTER COLUMN streams SET STORAGE MAIN,
    ALTER COLUMN rates SET STORAGE MAIN,
    ALTER COLUMN handlers SET STORAGE MAIN,
    ALTER COLUMN certificates SET STORAGE MAIN;
COMMENT ON TABLE upstream.workers IS 'What runs now: each worker writes its row every five seconds and deletes it when it stops in order. Alive is one whose heartbeat_at is less than 20 seconds old; one that is silent for a day is deleted by the others, or sooner by whoever dismisses it in the console.';
COMMENT ON COLUMN upstream.workers.instance IS 'Names the process; made anew at each start.';
COMMENT ON COLUMN upstream.workers.worker IS 'The process for people: host and process id, as in deliveries.lease_owner.';
COMMENT ON COLUMN upstream.workers.version IS 'The version of its binary.';
COMMENT ON COLUMN upstream.workers.roles IS 'What it does: receive, dispatch, or both.';
COMMENT ON COLUMN upstream.workers.started_at IS 'When it started.';
COMMENT ON COLUMN upstream.workers.heartbeat_at IS 'When it last wrote this row, by this server''s clock.';
COMMENT ON COLUMN upstream.workers.stopping IS 'Whether it is shutting down.';
COMMENT ON COLUMN upstream.workers.in_flight IS 'Copies that it has received and not yet settled.';
COMMENT ON COLUMN upstream.workers.streams IS 'Its streams: an array with an object for each sender: sender, connecting, bound, draining.';
COMMENT ON COLUMN upstream.workers.rates IS 'What it did since the row before: seconds (the time between them); received, stored, duplicates, acked, handled, each per second; ack_p50 and ack_p99 in seconds, null without an ack.';
COMMENT ON COLUMN upstream.workers.handlers IS 'Its handlers: an array with an object for each: handler, circuit (closed, open, half_open), next_probe (in so many seconds from heartbeat_at, or null), paused, running, waiting (deliveries in its memory), attempts and failed (per second), failed_in_row, last_failure (of the handler itself).';
COMMENT ON COLUMN upstream.workers.role IS 'The role of its sessions; null in a row of a version that did not tell.';
COMMENT ON COLUMN upstream.workers.certificates IS 'The certificates that it has seen: an array with an object for each: certificate (server, client, webhook, webhook_client, console), name (the sender or handler), ends_at (seconds since 1970).';

-- What the console is about to do to many rows, or does: the set is frozen when it is asked for, shown, and then acted on in
-- batches, each a transaction that moves next_chunk on. Whoever runs a console goes on where another stopped.
CREATE TABLE upstream.jobs (
    job uuid NOT NULL DEFAULT gen_random_uuid(),
    action text NOT NULL,
    subject text NOT NULL,
    groups json NOT NULL,
    state text NOT NULL DEFAULT 'planned',
    planned bigint NOT NULL,
    chunks integer NOT NULL,
    next_chunk integer NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    started_by text,
    started_at timestamptz,
    reason text,
    finished_at timestamptz,
    last_error text,
    CONSTRAINT jobs_pkey PRIMARY KEY (job),
    CONSTRAINT jobs_state_check CHECK (state IN ('planned', 'running', 'finished', 'cancelled', 'failed')),
    CONSTRAINT jobs_done_check CHECK (done >= 0 AND skipped >= 0 AND done + skipped <= planned)
);
CREATE INDEX jobs_open_idx ON upstream.jobs (state, created_at) WHERE state IN ('planned', 'running');
COMMENT ON TABLE upstream.jobs IS 'Actions of the console on many rows: what was frozen, by whom it was started, and how far it came. Kept for 7 days after the end.';
COMMENT ON COLUMN upstream.jobs.job IS 'Names the job.';
COMMENT ON COLUMN upstream.jobs.action IS 'What is done to the rows, as upstream.audit names it: dead.retry or dead.discard.';
COMMENT ON COLUMN upstream.jobs.subject IS 'The filter that selected them, for people.';
COMMENT ON COLUMN upstream.jobs.groups IS 'Their number by handler and error group, the largest 50.';
COMMENT ON COLUMN upstream.jobs.state IS 'planned (until it is started, or expires), running, finished, cancelled or failed.';
COMMENT ON COLUMN upstream.jobs.planned IS 'How many rows were frozen.';
COMMENT ON COLUMN upstream.jobs.chunks IS 'In how many rows of upstream.job_items they are.';
COMMENT ON COLUMN upstream.jobs.next_chunk IS 'Where it goes on.';
COMMENT ON COLUMN upstream.jobs.done IS 'On how many of them it acted.';
COMMENT ON COLUMN upstream.jobs.skipped IS 'How many were no longer there, or no longer the same.';
COMMENT ON COLUMN upstream.jobs.created_by IS 'Who asked for it.';
COMMENT ON COLUMN upstream.jobs.created_at IS 'When the set was frozen.';
COMMENT ON COLUMN upstream.jobs.expires_at IS 'Until when it can be started.';
COMMENT ON COLUMN upstream.jobs.started_by IS 'Who started it.';
COMMENT ON COLUMN upstream.jobs.started_at IS 'When it was started.';
COMMENT ON COLUMN upstream.jobs.reason IS 'Why, in their own words.';
COMMENT ON COLUMN upstream.jobs.finished_at IS 'When it ended.';
COMMENT ON COLUMN upstream.jobs.last_error IS 'What made it fail.';

CREATE TABLE upstream.job_items (
    job uuid NOT NULL,
    chunk integer NOT NULL,
    handler text[] NOT NULL,
    message_key uuid[] NOT NULL,
    died_at timestamptz[] NOT NULL,
    CONSTRAINT job_items_pkey PRIMARY KEY (job, chunk),
    CONSTRAINT job_items_job_fkey FOREIGN KEY (job) REFERENCES upstream.jobs ON DELETE CASCADE
);
COMMENT ON TABLE upstream.job_items IS 'The rows that a job is about, 1,000 to a row; deleted at its end.';
COMMENT ON COLUMN upstream.job_items.job IS 'The job.';
COMMENT ON COLUMN upstream.job_items.chunk IS 'Counts the job''s rows from 0.';
COMMENT ON COLUMN upstream.job_items.handler IS 'The dead letters'' handlers.';
COMMENT ON COLUMN upstream.job_items.message_key IS 'Their messages.';
COMMENT ON COLUMN upstream.job_items.died_at IS 'When they died: one that was retried and died again is another.';

-- The answers of the console's writes, so that a request that is sent again is answered again and not done again
-- (draft-ietf-httpapi-idempotency-key-header). A row is inserted in the transaction of what was asked for.
CREATE TABLE upstream.idempotency_keys (
    who text NOT NULL,
    key text NOT NULL,
    request bytea NOT NULL,
    status smallint NOT NULL,
    location text,
    answer bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (who, key),
    CONSTRAINT idempotency_keys_size_check CHECK (octet_length(key) <= 255 AND octet_length(answer) <= 262144)
);
CREATE INDEX idempotency_keys_created_at_idx ON upstream.idempotency_keys (created_at);
COMMENT ON TABLE upstream.idempotency_keys IS 'What the console answered to requests that change something, by their Idempotency-Key; for 24 hours.';
COMMENT ON COLUMN upstream.idempotency_keys.who IS 'Who sent the request.';
COMMENT ON COLUMN upstream.idempotency_keys.key IS 'Its Idempotency-Key.';
COMMENT ON COLUMN upstream.idempotency_keys.request IS 'SHA-256 of its method, path and body.';
COMMENT ON COLUMN upstream.idempotency_keys.status IS 'The answer''s HTTP status, of class 2xx: a refused request did nothing, and may be sent again.';
COMMENT ON COLUMN upstream.idempotency_keys.location IS 'The answer''s Location.';
COMMENT ON COLUMN upstream.idempotency_keys.answer IS 'The answer''s body.';
COMMENT ON COLUMN upstream.idempotency_keys.created_at IS 'When it was answered first.';

-- migrate:down
DROP TABLE upstream.idempotency_keys, upstream.job_items, upstream.jobs, upstream.workers;
DROP FUNCTION upstream.purge_audit, upstream.record_audit;
DROP TABLE upstream.audit;
DROP FUNCTION upstream.guard_audit;
