-- migrate:up
-- Samples: what workers did, minute by minute, for the console's charts.

-- A row for each minute, process and subject. Rows of one minute add up: counts and buckets by their sum; waiting and oldest, which
-- each process knows of all workers, by the larger.
CREATE TABLE upstream.samples (
    at timestamptz NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    instance uuid NOT NULL,
    received bigint,
    stored bigint,
    duplicates bigint,
    acked bigint,
    handled bigint,
    failed bigint,
    times integer [],
    waiting bigint,
    oldest double precision,
    held boolean,
    started text,
    -- Charts read one subject over days.
    CONSTRAINT samples_pkey PRIMARY KEY (kind, subject, at, instance),
    CONSTRAINT samples_kind_check CHECK (kind IN ('store', 'sender', 'handler'))
) PARTITION BY RANGE (at);
COMMENT ON TABLE upstream.samples IS 'What workers did: a row for each minute, process, and handler, sender or the store; null where a subject has no such figure. A minute without rows was not measured. By day, kept for retention.samples; a day without a partition has no samples.';
COMMENT ON COLUMN upstream.samples.at IS 'The minute''s start, by the database''s clock.';
COMMENT ON COLUMN upstream.samples.kind IS 'store, sender or handler.';
COMMENT ON COLUMN upstream.samples.subject IS 'The handler''s name or the sender_id; empty for the store.';
COMMENT ON COLUMN upstream.samples.instance IS 'The process, as workers.instance: one that starts anew counts anew.';
COMMENT ON COLUMN upstream.samples.received IS 'Copies received, of the store or the sender.';
COMMENT ON COLUMN upstream.samples.stored IS 'New messages, of the store.';
COMMENT ON COLUMN upstream.samples.duplicates IS 'Copies of known messages, of the store.';
COMMENT ON COLUMN upstream.samples.acked IS 'Acks sent, of the store.';
COMMENT ON COLUMN upstream.samples.handled IS 'Deliveries done, of the handler; of the store, by all its handlers.';
COMMENT ON COLUMN upstream.samples.failed IS 'Attempts that failed, likewise.';
COMMENT ON COLUMN upstream.samples.times IS 'How many attempts of the handler, or acks of the store, took up to 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500 ms, 1, 2.5, 5, 10, 30 s, and longer: not cumulative; null where there were none.';
COMMENT ON COLUMN upstream.samples.waiting IS 'Deliveries that waited at the end, over all workers, up to 100,000 of each handler.';
COMMENT ON COLUMN upstream.samples.oldest IS 'The age of the oldest of them, in seconds; 0 where none waited.';
COMMENT ON COLUMN upstream.samples.held IS 'Whether, at some heartbeat, the handler''s circuit was not closed, the sender had no bound stream, or commits waited for a standby.';
COMMENT ON COLUMN upstream.samples.started IS 'In the store''s first row of a process: its version.';

-- ATTACH takes a lock that lets inserts go on.
CREATE FUNCTION upstream.ensure_samples(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET lock_timeout = 1500 AS $$
DECLARE
    day date;
    title name;
    made integer := 0;
BEGIN
    IF first_day < '2000-01-01' OR last_day > '2100-12-31' OR last_day - first_day > 400 THEN
        RAISE EXCEPTION 'upstream.ensure_samples makes 400 days of the years 2000 to 2100 at most'
            USING ERRCODE = '55000', HINT = 'Set the clock of the machine that asks.';
    END IF;
    FOR day IN SELECT first_day + n FROM generate_series(0, last_day - first_day) AS n LOOP
        title := 'samples_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN EXISTS (SELECT FROM pg_class WHERE relnamespace = 'upstream'::regnamespace AND relname = title);
        -- One maker at a time; whoever waited looks again. (to_regclass would remember that there was none.)
        PERFORM pg_advisory_xact_lock(hashtextextended('upstream.ensure_samples', 0));
        CONTINUE WHEN EXISTS (SELECT FROM pg_class WHERE relnamespace = 'upstream'::regnamespace AND relname = title);
        EXECUTE format('CREATE TABLE upstream.%I (LIKE upstream.samples INCLUDING ALL)', title);
        EXECUTE format('COMMENT ON TABLE upstream.%I IS %L', title, 'Samples of ' || day || ' UTC.');
        EXECUTE format(
            'ALTER TABLE upstream.samples ATTACH PARTITION upstream.%I FOR VALUES FROM (%L) TO (%L)',
            title, day::timestamptz, (day + 1)::timestamptz);
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
REVOKE ALL ON FUNCTION upstream.ensure_samples(date, date) FROM PUBLIC;
COMMENT ON FUNCTION upstream.ensure_samples(date, date) IS 'Makes the missing partitions of samples for these UTC days and returns their number.';

-- The time comes from the configuration, not from the policy: nothing depends on samples.
CREATE FUNCTION upstream.purge_samples(keep interval) RETURNS integer
LANGUAGE plpgsql STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = 50 AS $$
DECLARE
    target name;
    dropped integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    FOR target IN
        SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'upstream.samples'::regclass AND NOT i.inhdetachpending AND c.relname ~ '^samples_\d{8}$'
            AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamptz <= now() - greatest(keep, interval '0')
        ORDER BY c.relname
    LOOP
        EXECUTE format('DROP TABLE upstream.%I', target);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
EXCEPTION
    -- Somebody reads: the next run drops them.
    WHEN lock_not_available THEN
        RETURN 0;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_samples(interval) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_samples(interval) IS 'Drops the days of samples that ended longer ago than that: how many. Null where another worker is at it.';

-- The latest failures of a handler; successes, which are most of the rows, are not in it.
CREATE INDEX attempt_batches_failed_idx ON upstream.attempt_batches (handler, settled_at)
WHERE outcome IN ('retry', 'rejected', 'exhausted');

-- Whoever writes upstream.workers writes samples.
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT CASE WHEN held.grantee = 0 THEN 'PUBLIC' ELSE held.grantee::regrole::text END AS grantee
        FROM pg_catalog.pg_class AS c CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS held
        WHERE c.relnamespace = 'upstream'::regnamespace AND c.relname = 'workers' AND held.privilege_type = 'INSERT'
            AND held.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT, INSERT ON upstream.samples TO %s', known.grantee);
        EXECUTE format('GRANT EXECUTE ON FUNCTION upstream.ensure_samples(date, date) TO %s', known.grantee);
        EXECUTE format('GRANT EXECUTE ON FUNCTION upstream.purge_samples(interval) TO %s', known.grantee);
    END LOOP;
END
$$;

-- migrate:down
DROP INDEX upstream.attempt_batches_failed_idx;
DROP FUNCTION upstream.purge_samples, upstream.ensure_samples;
DROP TABLE upstream.samples;
