-- migrate:up
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
    CONSTRAINT workers_pkey PRIMARY KEY (instance)
    -- No index but that of the key, and room on the page: an update touches nothing else.
) WITH (fillfactor = 40, autovacuum_vacuum_threshold = 1000);
ALTER TABLE upstream.workers
    ALTER COLUMN streams SET STORAGE MAIN,
    ALTER COLUMN rates SET STORAGE MAIN,
    ALTER COLUMN handlers SET STORAGE MAIN;
COMMENT ON TABLE upstream.workers IS 'What runs now: each worker writes its row every five seconds and deletes it when it stops in order. Alive is one whose heartbeat_at is less than 20 seconds old; one that is silent for ten minutes is deleted by the others.';
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
COMMENT ON COLUMN upstream.workers.handlers IS 'Its handlers: an array with an object for each: handler, circuit (closed, open, half_open), next_probe (in so many seconds from heartbeat_at, or null), paused, running, waiting (deliveries in its memory), attempts and failed (per second).';

-- Workers have the rights for it at once, those of the version before included.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_worker') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON upstream.workers TO upstream_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_reader') THEN
        GRANT SELECT ON upstream.workers TO upstream_reader;
    END IF;
END
$$;

-- migrate:down
DROP TABLE upstream.workers;
