-- migrate:up
-- What was tried, successes too. A row holds many attempts of one handler that ended alike and were settled together, of
-- messages that arrived within one second: a settled block costs one row, where a row for each message would cost more than
-- the settlement itself. Found by the time of arrival, which the ledger knows for each key; so the only index is one that
-- grows at its end, and no insert touches a random page.
CREATE TABLE upstream.attempt_batches (
    settled_at timestamptz NOT NULL,
    handler text NOT NULL,
    worker text NOT NULL,
    outcome text NOT NULL,
    first_received timestamptz NOT NULL,
    last_received timestamptz NOT NULL,
    keys uuid[] NOT NULL,
    ages real[] NOT NULL,
    durations real[] NOT NULL,
    numbers integer[],
    error_groups text[],
    CONSTRAINT attempt_batches_outcome_check
        CHECK (outcome IN ('done', 'retry', 'rejected', 'exhausted', 'released')),
    -- What upstream.attempts_of relies on.
    CONSTRAINT attempt_batches_received_check
        CHECK (last_received >= first_received AND last_received < first_received + interval '1 second')
) PARTITION BY RANGE (settled_at);
-- Keys are hashes: trying to compress them is time lost.
ALTER TABLE upstream.attempt_batches
    ALTER COLUMN keys SET STORAGE EXTERNAL, ALTER COLUMN keys SET STATISTICS 0,
    ALTER COLUMN ages SET STORAGE EXTERNAL, ALTER COLUMN ages SET STATISTICS 0,
    ALTER COLUMN durations SET STORAGE EXTERNAL, ALTER COLUMN durations SET STATISTICS 0;
-- Without a key of its own, what publishes all tables would refuse that forget changes a row, and that the rest is emptied.
ALTER TABLE upstream.attempt_batches REPLICA IDENTITY FULL;
CREATE INDEX attempt_batches_received_idx ON upstream.attempt_batches (first_received, last_received);
COMMENT ON TABLE upstream.attempt_batches IS 'How upstream.attempts is stored: a row for attempts of one handler that ended alike, were settled together, and whose messages arrived within one second. Arrays are in the order of keys. By UTC day of settled_at, kept for retention_policy.attempts.';
COMMENT ON COLUMN upstream.attempt_batches.settled_at IS 'When the settlement was written, by this server''s clock; the row commits with it.';
COMMENT ON COLUMN upstream.attempt_batches.handler IS 'The handler.';
COMMENT ON COLUMN upstream.attempt_batches.worker IS 'The process that made the attempts: host and process id.';
COMMENT ON COLUMN upstream.attempt_batches.outcome IS 'How they ended; see upstream.attempts.';
COMMENT ON COLUMN upstream.attempt_batches.first_received IS 'The earliest received_at of the messages.';
COMMENT ON COLUMN upstream.attempt_batches.last_received IS 'The latest; less than a second later.';
COMMENT ON COLUMN upstream.attempt_batches.keys IS 'The messages.';
COMMENT ON COLUMN upstream.attempt_batches.ages IS 'How many seconds before settled_at each attempt began.';
COMMENT ON COLUMN upstream.attempt_batches.durations IS 'How many seconds each took; null where a delivery became a dead letter without an attempt.';
COMMENT ON COLUMN upstream.attempt_batches.numbers IS 'The number of each attempt; null where all were first ones.';
COMMENT ON COLUMN upstream.attempt_batches.error_groups IS 'What went wrong, as dead_letters.error_group; null where nothing did.';

-- A settlement never fails for want of a day: what finds none waits here, and goes to its day when that is made.
CREATE TABLE upstream.attempt_batches_rest PARTITION OF upstream.attempt_batches DEFAULT;
ALTER TABLE upstream.attempt_batches_rest REPLICA IDENTITY FULL;
COMMENT ON TABLE upstream.attempt_batches_rest IS 'Attempts settled on days that have no partition yet; usually empty.';
COMMENT ON COLUMN upstream.attempt_batches_rest.settled_at IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.handler IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.worker IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.outcome IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.first_received IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.last_received IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.keys IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.ages IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.durations IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.numbers IS 'See upstream.attempt_batches.';
COMMENT ON COLUMN upstream.attempt_batches_rest.error_groups IS 'See upstream.attempt_batches.';

CREATE VIEW upstream.attempts AS
SELECT
    e.message_key, b.handler, coalesce(e.number, 1) AS attempt,
    b.settled_at - e.age * interval '1 second' AS started_at, e.duration * interval '1 second' AS duration, b.outcome,
    substring(e.error_group FROM '^webhook status ([0-9]{3})$')::integer AS status, e.error_group, b.worker, b.settled_at
FROM upstream.attempt_batches AS b
CROSS JOIN LATERAL unnest(b.keys, b.ages, b.durations, b.numbers, b.error_groups)
    AS e (message_key, age, duration, number, error_group);
COMMENT ON VIEW upstream.attempts IS 'What was tried: a row for each attempt at a delivery, written with its settlement, kept for retention_policy.attempts. Restrict settled_at to read some days only; upstream.attempts_of(message_key) finds those of one message by an index, a condition on message_key reads everything.';
COMMENT ON COLUMN upstream.attempts.message_key IS 'The message; that of a released conflict is its release key, as in deliveries.';
COMMENT ON COLUMN upstream.attempts.handler IS 'The handler.';
COMMENT ON COLUMN upstream.attempts.attempt IS 'Its number: 1, and one more for each attempt before it that was counted.';
COMMENT ON COLUMN upstream.attempts.started_at IS 'When it began, by this server''s clock.';
COMMENT ON COLUMN upstream.attempts.duration IS 'How long it took; null where a delivery became a dead letter without an attempt.';
COMMENT ON COLUMN upstream.attempts.outcome IS 'done; retry: counted, and tried again; rejected, exhausted: a dead letter; released: not counted, and tried again.';
COMMENT ON COLUMN upstream.attempts.status IS 'The HTTP status of a webhook''s answer that was no success.';
COMMENT ON COLUMN upstream.attempts.error_group IS 'What went wrong, as dead_letters.error_group.';
COMMENT ON COLUMN upstream.attempts.worker IS 'The process that made it: host and process id.';
COMMENT ON COLUMN upstream.attempts.settled_at IS 'When its outcome was written. The column that the days are made by.';

-- One statement for each step, so that each has the one plan it can have.
CREATE FUNCTION upstream.attempts_of(key uuid) RETURNS SETOF upstream.attempts
LANGUAGE plpgsql STABLE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    arrival timestamptz;
BEGIN
    FOR arrival IN
        SELECT i.received_at FROM upstream.message_ids AS i WHERE i.message_key = key
        UNION SELECT d.received_at FROM upstream.deliveries AS d WHERE d.message_key = key
        UNION SELECT d.received_at FROM upstream.dead_letters AS d WHERE d.message_key = key
        UNION SELECT c.received_at FROM upstream.conflicts AS c
        WHERE upstream.release_key(c.message_key, c.fingerprint) = key AND c.released_at IS NOT NULL
    LOOP
        RETURN QUERY SELECT * FROM upstream.attempts_of(key, arrival);
    END LOOP;
END
$$;
CREATE FUNCTION upstream.attempts_of(key uuid, arrival timestamptz) RETURNS SETOF upstream.attempts
LANGUAGE sql STABLE ROWS 10 AS $$
    SELECT
        e.message_key, b.handler, coalesce(e.number, 1), b.settled_at - e.age * interval '1 second',
        e.duration * interval '1 second', b.outcome,
        substring(e.error_group FROM '^webhook status ([0-9]{3})$')::integer, e.error_group, b.worker, b.settled_at
    FROM upstream.attempt_batches AS b
    CROSS JOIN LATERAL unnest(b.keys, b.ages, b.durations, b.numbers, b.error_groups)
        AS e (message_key, age, duration, number, error_group)
    WHERE b.first_received > arrival - interval '1 second' AND b.first_received <= arrival
        AND b.last_received >= arrival AND e.message_key = key
$$;
COMMENT ON FUNCTION upstream.attempts_of(uuid) IS 'The attempts at one message, by handlers and in no order: found by an index. For a message whose id the ledger still knows.';
COMMENT ON FUNCTION upstream.attempts_of(uuid, timestamptz) IS 'As attempts_of(key), for a message of which received_at is known.';

-- Which days there are; both bounds are null for the rest.
CREATE FUNCTION upstream.attempt_partitions(
    OUT relation oid, OUT relname name, OUT since timestamptz, OUT until timestamptz
) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' AS $$
    SELECT c.oid, c.relname, btrim(bounds[1], '''')::timestamptz, btrim(bounds[2], '''')::timestamptz
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    LEFT JOIN LATERAL regexp_match(
        pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \((''.*'')\) TO \((''.*'')\)$') AS bounds ON true
    WHERE i.inhparent = 'upstream.attempt_batches'::regclass AND NOT i.inhdetachpending
$$;
COMMENT ON FUNCTION upstream.attempt_partitions() IS 'The partitions of attempt_batches with their bounds: a UTC day each, and one without bounds for the rest.';

-- ATTACH locks the rest, where usually nothing is, and lets inserts into the other days go on.
CREATE FUNCTION upstream.ensure_attempts(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET lock_timeout = 1500 AS $$
DECLARE
    day date;
    title name;
    number integer;
    made integer := 0;
    is_full boolean;
BEGIN
    IF first_day < '2000-01-01' OR last_day > '2100-12-31' OR last_day - first_day > 400 THEN
        RAISE EXCEPTION 'upstream.ensure_attempts makes 400 days of the years 2000 to 2100 at most'
            USING ERRCODE = '55000', HINT = 'Set the clock of the machine that asks.';
    END IF;
    -- Where nothing is kept nothing is written.
    IF EXISTS (SELECT FROM upstream.retention_policy WHERE attempts = interval '0') THEN
        RETURN 0;
    END IF;
    FOR day IN SELECT first_day + n FROM generate_series(0, last_day - first_day) AS n LOOP
        CONTINUE WHEN EXISTS (
            SELECT FROM upstream.attempt_partitions() AS p WHERE p.since < (day + 1)::timestamptz AND p.until > day::timestamptz
        );
        -- One maker at a time; whoever waited looks again.
        PERFORM pg_advisory_xact_lock(hashtextextended('upstream.ensure_attempts', 0));
        CONTINUE WHEN EXISTS (
            SELECT FROM upstream.attempt_partitions() AS p WHERE p.since < (day + 1)::timestamptz AND p.until > day::timestamptz
        );
        -- Only now: whoever looked at the rest before waiting for the maker would keep the maker from locking it.
        IF is_full IS NULL THEN
            SELECT count(*) > 10000 FROM (SELECT FROM upstream.attempt_batches_rest LIMIT 10001) AS few INTO is_full;
        END IF;
        -- Settlements wait while the rest is locked: much of a day stays there until it is purged, and of the others one is made.
        CONTINUE WHEN is_full AND EXISTS (
            SELECT FROM upstream.attempt_batches_rest WHERE settled_at >= day::timestamptz AND settled_at < (day + 1)::timestamptz
        );
        EXIT WHEN is_full AND made > 0;
        title := 'attempt_batches_' || to_char(day, 'YYYYMMDD');
        number := 0;
        WHILE EXISTS (SELECT FROM pg_class WHERE relnamespace = 'upstream'::regnamespace AND relname = title) LOOP
            number := number + 1;
            title := 'attempt_batches_' || to_char(day, 'YYYYMMDD') || '_' || number;
        END LOOP;
        EXECUTE format('CREATE TABLE upstream.%I (LIKE upstream.attempt_batches INCLUDING ALL)', title);
        EXECUTE format('COMMENT ON TABLE upstream.%I IS %L', title, 'Attempts settled on ' || day || ' UTC.');
        EXECUTE format(
            'ALTER TABLE upstream.%I ALTER COLUMN keys SET STATISTICS 0, ALTER COLUMN ages SET STATISTICS 0, '
            'ALTER COLUMN durations SET STATISTICS 0, REPLICA IDENTITY FULL', title);
        LOCK TABLE ONLY upstream.attempt_batches_rest IN ACCESS EXCLUSIVE MODE;
        EXECUTE format(
            'WITH moved AS (DELETE FROM upstream.attempt_batches_rest WHERE settled_at >= $1 AND settled_at < $2 RETURNING *) '
            'INSERT INTO upstream.%I SELECT * FROM moved', title) USING day::timestamptz, (day + 1)::timestamptz;
        EXECUTE format(
            'ALTER TABLE upstream.attempt_batches ATTACH PARTITION upstream.%I FOR VALUES FROM (%L) TO (%L)',
            title, day::timestamptz, (day + 1)::timestamptz);
        made := made + 1;
    END LOOP;
    RETURN made;
EXCEPTION
    -- Somebody reads all of it; another call makes them, well before they are needed. Nothing is lost meanwhile.
    WHEN lock_not_available THEN
        RETURN -1;
END
$$;
REVOKE ALL ON FUNCTION upstream.ensure_attempts(date, date) FROM PUBLIC;
COMMENT ON FUNCTION upstream.ensure_attempts(date, date) IS 'Makes the missing partitions of attempt_batches for these UTC days and returns their number; 0 where the policy keeps no attempts, -1 where the table was in use.';

CREATE OR REPLACE FUNCTION upstream.retention_end(what text) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    policy upstream.retention_policy;
BEGIN
    SELECT * INTO policy FROM upstream.retention_policy FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no retention policy yet, so nothing is deleted'
            USING ERRCODE = '55000', HINT = 'A worker sets it at its start; or upstream-worker partitions policy --apply.';
    END IF;
    RETURN now() - CASE what
        WHEN 'messages' THEN policy.messages
        WHEN 'dedupe_window' THEN policy.dedupe_window
        WHEN 'dead_letters' THEN policy.dead_letters
        WHEN 'attempts' THEN policy.attempts
    END;
END
$$;

-- Settlements wait 50 ms at most for each day that goes.
CREATE FUNCTION upstream.purge_attempts(OUT dropped integer, OUT locked integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = 50 AS $$
DECLARE
    old_end timestamptz := upstream.retention_end('attempts');
    target record;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN;
    END IF;
    dropped := 0;
    locked := 0;
    FOR target IN SELECT p.relname FROM upstream.attempt_partitions() AS p WHERE p.until <= old_end ORDER BY p.since LOOP
        BEGIN
            EXECUTE format('DROP TABLE upstream.%I', target.relname);
            dropped := dropped + 1;
        EXCEPTION
            WHEN lock_not_available THEN
                locked := locked + 1;
                EXIT;
        END;
    END LOOP;
    BEGIN
        DELETE FROM upstream.attempt_batches_rest WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM upstream.attempt_batches_rest WHERE settled_at < old_end LIMIT 100000));
    EXCEPTION
        WHEN lock_not_available THEN
            locked := locked + 1;
    END;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_attempts() FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_attempts() IS 'Drops the days of attempts that are past retention_policy.attempts as a whole. Gives how many, and how many somebody was using; null where another worker is at it.';

-- As the one of 0012, and what is done is written to attempt_batches.
CREATE FUNCTION upstream.unpack_deliveries(
    process bigint, name text, numbers bigint[], done uuid[], who text, done_ages real[], done_durations real[]
) RETURNS bigint
-- The dispatcher's sessions find rows by an index only; here two arrays are joined.
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on AS $$
DECLARE
    settled bigint;
BEGIN
    WITH gone AS (
        DELETE FROM upstream.delivery_blocks
        WHERE token = process AND handler = name AND number = ANY (numbers)
        RETURNING *
    ), held AS MATERIALIZED (
        SELECT gone.*, entry.*, (entry.key IN (SELECT unnest(done))) IS TRUE AS is_done
        FROM gone CROSS JOIN LATERAL unnest(gone.keys, gone.times) AS entry (key, at)
    ), rows AS (
        INSERT INTO upstream.deliveries (
            handler, message_key, received_at, next_attempt_at, lease_owner, lease_token, lease_until, replay_id
        )
        SELECT handler, key, at, now(), lease_owner, token, lease_until, replay_id
        FROM held
        WHERE NOT is_done AND EXISTS (SELECT FROM upstream.message_of(key, at))
        ORDER BY key
        ON CONFLICT DO NOTHING
    ), noted AS (
        INSERT INTO upstream.attempt_batches (
            settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations
        )
        SELECT
            now(), name, who, 'done', min(held.at), max(held.at), array_agg(held.key), array_agg(input.age),
            array_agg(input.duration)
        FROM unnest(done, done_ages, done_durations) AS input (key, age, duration) JOIN held USING (key)
        WHERE held.is_done
        GROUP BY date_trunc('second', held.at)
    )
    SELECT count(*) FROM held WHERE is_done INTO settled;
    RETURN settled;
END
$$;
COMMENT ON FUNCTION upstream.unpack_deliveries(bigint, text, bigint[], uuid[], text, real[], real[]) IS 'Turns blocks of a process into rows of upstream.deliveries under the same lease, less what is done, which is written to upstream.attempt_batches; gives the number of these.';

-- Every worker goes on with the rights that it has.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_worker') THEN
        GRANT SELECT, INSERT ON upstream.attempt_batches TO upstream_worker;
        GRANT SELECT ON upstream.attempts TO upstream_worker;
        GRANT EXECUTE ON FUNCTION upstream.ensure_attempts(date, date), upstream.purge_attempts() TO upstream_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_reader') THEN
        GRANT SELECT ON upstream.attempt_batches, upstream.attempt_batches_rest, upstream.attempts TO upstream_reader;
    END IF;
END
$$;

-- migrate:down
DROP FUNCTION upstream.unpack_deliveries(bigint, text, bigint[], uuid[], text, real[], real[]);
DROP FUNCTION upstream.purge_attempts();
CREATE OR REPLACE FUNCTION upstream.retention_end(what text) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    policy upstream.retention_policy;
BEGIN
    SELECT * INTO policy FROM upstream.retention_policy FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no retention policy yet, so nothing is deleted'
            USING ERRCODE = '55000', HINT = 'A worker sets it at its start; or upstream-worker partitions policy --apply.';
    END IF;
    RETURN now() - CASE what
        WHEN 'messages' THEN policy.messages
        WHEN 'dedupe_window' THEN policy.dedupe_window
        WHEN 'dead_letters' THEN policy.dead_letters
    END;
END
$$;
DROP FUNCTION upstream.ensure_attempts(date, date);
DROP FUNCTION upstream.attempts_of(uuid);
DROP FUNCTION upstream.attempts_of(uuid, timestamptz);
DROP VIEW upstream.attempts;
DROP FUNCTION upstream.attempt_partitions();
DROP TABLE upstream.attempt_batches;
