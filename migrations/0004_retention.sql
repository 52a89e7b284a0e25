-- migrate:up
-- A block range keeps the earliest time it ever held, and what is deleted is filled with what is new: after a first round
-- of retention every range would match. Retention reads the ledger block by block instead.
DROP INDEX upstream.message_ids_received_at_idx;
ALTER TABLE upstream.message_ids SET (autovacuum_vacuum_scale_factor = 0.05);

-- ANALYZE keeps samples of values in pg_statistic, where erasing a row does not reach them: none of tokens and payloads.
ALTER TABLE upstream.messages
    ALTER COLUMN registration_token SET STATISTICS 0,
    ALTER COLUMN data_raw SET STATISTICS 0,
    ALTER COLUMN extra SET STATISTICS 0;
ALTER TABLE upstream.conflicts
    ALTER COLUMN registration_token SET STATISTICS 0,
    ALTER COLUMN data_raw SET STATISTICS 0,
    ALTER COLUMN extra SET STATISTICS 0;
ALTER TABLE upstream.quarantine ALTER COLUMN stanza SET STATISTICS 0;
ALTER TABLE upstream.deliveries ALTER COLUMN last_error SET STATISTICS 0;
ALTER TABLE upstream.dead_letters ALTER COLUMN last_error SET STATISTICS 0;

CREATE TABLE upstream.retention_runs (
    finished_at timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    run_by text NOT NULL DEFAULT session_user,
    partitions_dropped integer NOT NULL,
    partitions_held integer NOT NULL,
    ids_deleted bigint NOT NULL,
    conflicts_deleted bigint NOT NULL,
    quarantine_deleted bigint NOT NULL
);
CREATE INDEX retention_runs_finished_at_idx ON upstream.retention_runs (finished_at);
COMMENT ON TABLE upstream.retention_runs IS 'The runs of retention that left nothing for want of a lock: workers make one each UTC day.';
COMMENT ON COLUMN upstream.retention_runs.finished_at IS 'When it had ended.';
COMMENT ON COLUMN upstream.retention_runs.started_at IS 'When it began, by the clock of whoever ran it: what was too old is judged by it.';
COMMENT ON COLUMN upstream.retention_runs.run_by IS 'The role that ran it.';
COMMENT ON COLUMN upstream.retention_runs.partitions_dropped IS 'Days of messages that it dropped.';
COMMENT ON COLUMN upstream.retention_runs.partitions_held IS 'Days that are too old and that it kept, for deliveries or dead letters need them.';
COMMENT ON COLUMN upstream.retention_runs.ids_deleted IS 'Rows of the ledger that it deleted.';
COMMENT ON COLUMN upstream.retention_runs.conflicts_deleted IS 'Conflicts that it deleted.';
COMMENT ON COLUMN upstream.retention_runs.quarantine_deleted IS 'Quarantined stanzas that it deleted.';

COMMENT ON SEQUENCE upstream.quarantine_id_seq IS 'Where quarantine.id comes from.';

-- Makes the partitions of the days from first_day to last_day that are missing, and tells how many it made.
-- SECURITY DEFINER: the worker's role inserts and selects, and owns nothing.
-- ATTACH takes a lock that lets inserts into the other days go on; CREATE TABLE … PARTITION OF would stop them.
CREATE OR REPLACE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    day date;
    name name;
    made integer := 0;
BEGIN
    IF last_day - first_day > 400 THEN
        RAISE EXCEPTION 'upstream.ensure_partitions makes 400 days at most' USING ERRCODE = '22023';
    END IF;
    FOR day IN SELECT first_day + n FROM generate_series(0, last_day - first_day) AS n LOOP
        name := 'messages_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('upstream.' || name) IS NOT NULL;
        -- One maker at a time; whoever waited looks again, into the catalog itself: what to_regclass has cached may be
        -- older than the lock.
        PERFORM pg_advisory_xact_lock(hashtextextended('upstream.ensure_partitions', 0));
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_class WHERE relnamespace = 'upstream'::regnamespace AND relname = name);
        EXECUTE format('CREATE TABLE upstream.%I (LIKE upstream.messages INCLUDING ALL)', name);
        -- LIKE leaves these behind.
        EXECUTE format(
            'ALTER TABLE upstream.%I ALTER COLUMN registration_token SET STATISTICS 0, '
            'ALTER COLUMN data_raw SET STATISTICS 0, ALTER COLUMN extra SET STATISTICS 0', name);
        EXECUTE format('COMMENT ON TABLE upstream.%I IS %L', name, 'Messages received on ' || day || ' UTC.');
        EXECUTE format(
            'ALTER TABLE upstream.messages ATTACH PARTITION upstream.%I FOR VALUES FROM (%L) TO (%L)',
            name, day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

-- The functions below delete what is too old to be kept. They are SECURITY DEFINER, for the worker's role may delete
-- neither messages nor what the ledger knows; each has a floor of its own under what it may be asked for, and one
-- advisory lock, held to the transaction's end, lets one worker at a time do it, behind a pooler too.

-- Drops the partition of one UTC day.
--
-- Ingest waits 50 ms for it at most. DROP TABLE needs messages for itself for a moment, and whoever comes while it waits
-- for that queues behind it. The partition comes first, with a wait that is felt only by those who read this very day and
-- that is long enough for an autovacuum to give way (deadlock_timeout: 1 s). DETACH … CONCURRENTLY is no way: it can't
-- run inside a function, so the worker would have to own the table, and broken off it leaves a day that is half there.
--
-- With the partition locked nobody is storing a message of this day, so no delivery of it can appear unseen.
CREATE FUNCTION upstream.drop_partition(
    day date, OUT outcome text, OUT waiting bigint, OUT dead bigint
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 1500 AS $$
DECLARE
    name name := 'messages_' || to_char(day, 'YYYYMMDD');
    since timestamptz := day::timestamp AT TIME ZONE 'UTC';
    until timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
    IF day IS NULL OR until > now() - interval '1 day' THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that ended less than a day ago' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        outcome := 'busy';
        RETURN;
    END IF;
    IF NOT EXISTS (
        SELECT FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'upstream.messages'::regclass AND relname = name
    ) THEN
        outcome := 'absent';
        RETURN;
    END IF;
    -- One statement, one snapshot: a delivery that becomes a dead letter meanwhile is seen as one of them.
    SELECT
        (SELECT count(*) FROM upstream.deliveries WHERE received_at >= since AND received_at < until),
        (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= since AND received_at < until)
    INTO waiting, dead;
    IF waiting + dead = 0 THEN
        EXECUTE format('LOCK TABLE upstream.%I IN ACCESS EXCLUSIVE MODE', name);
        SELECT
            (SELECT count(*) FROM upstream.deliveries WHERE received_at >= since AND received_at < until),
            (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= since AND received_at < until)
        INTO waiting, dead;
    END IF;
    IF waiting + dead > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '50', true);
    EXECUTE format('DROP TABLE upstream.%I', name);
    outcome := 'dropped';
EXCEPTION
    -- Caught, it is not an error in PostgreSQL's log each time a report reads the table.
    WHEN lock_not_available THEN
        outcome := 'locked';
END
$$;
REVOKE ALL ON FUNCTION upstream.drop_partition(date) FROM PUBLIC;
COMMENT ON FUNCTION upstream.drop_partition(date) IS 'Drops one day of messages. Outcome: dropped; absent; pending, with the counts of deliveries and dead letters that still need it; locked, somebody reads the table; busy, another worker is at it.';

-- Forgets what the ledger knew before a time, in some of its blocks. Gives the number of rows, or null where another
-- worker is at it.
--
-- A day whose bodies are still there is left out: a copy that comes again would be stored beside them.
CREATE FUNCTION upstream.purge_message_ids(before timestamptz, first_block bigint, blocks integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_row tid := format('(%s,0)', first_block);
    end_row tid := format('(%s,0)', first_block + blocks);
    kept date[];
    deleted integer;
BEGIN
    IF before IS NULL OR before > now() - interval '28 days' THEN
        RAISE EXCEPTION 'upstream.purge_message_ids forgets nothing younger than 28 days: a server may send it again'
            USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(to_date(right(relname, 8), 'YYYYMMDD')), '{}') INTO kept
    FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'upstream.messages'::regclass AND relname ~ '^messages_[0-9]{8}$';
    DELETE FROM upstream.message_ids
    WHERE ctid >= first_row AND ctid < end_row AND received_at < before
        AND (received_at AT TIME ZONE 'UTC')::date <> ALL (kept);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_message_ids(timestamptz, bigint, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_message_ids(timestamptz, bigint, integer) IS 'Deletes ledger rows from before a time, 28 days ago at the latest, in some blocks of the table, except those of days whose partition is still there. Null where another worker is at it.';

-- The time is asked again outside: a copy that comes meanwhile makes the row young.
CREATE FUNCTION upstream.purge_conflicts(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF before IS NULL OR before > now() - interval '1 day' THEN
        RAISE EXCEPTION 'upstream.purge_conflicts deletes nothing younger than a day' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.conflicts
    WHERE last_seen_at < before AND ctid IN (
        SELECT ctid FROM upstream.conflicts WHERE received_at < before AND last_seen_at < before LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_conflicts(timestamptz, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_conflicts(timestamptz, integer) IS 'Deletes conflicts that were last seen before a time, a day ago at the latest: most of them at once. Null where another worker is at it.';

CREATE FUNCTION upstream.purge_quarantine(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF before IS NULL OR before > now() - interval '1 day' THEN
        RAISE EXCEPTION 'upstream.purge_quarantine deletes nothing younger than a day' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.quarantine
    WHERE last_seen_at < before AND ctid IN (
        SELECT ctid FROM upstream.quarantine WHERE received_at < before AND last_seen_at < before LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_quarantine(timestamptz, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_quarantine(timestamptz, integer) IS 'Deletes quarantined stanzas that were last seen before a time, a day ago at the latest: most of them at once. Null where another worker is at it.';

-- migrate:down
DROP FUNCTION upstream.purge_quarantine(timestamptz, integer);
DROP FUNCTION upstream.purge_conflicts(timestamptz, integer);
DROP FUNCTION upstream.purge_message_ids(timestamptz, bigint, integer);
DROP FUNCTION upstream.drop_partition(date);
DROP TABLE upstream.retention_runs;
-- Makes the partitions of the days from first_day to last_day that are missing, and tells how many it made.
-- SECURITY DEFINER: the worker's role inserts and selects, and owns nothing.
-- ATTACH takes a lock that lets inserts into the other days go on; CREATE TABLE … PARTITION OF would stop them.
CREATE OR REPLACE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    day date;
    name name;
    made integer := 0;
BEGIN
    IF last_day - first_day > 400 THEN
        RAISE EXCEPTION 'upstream.ensure_partitions makes 400 days at most' USING ERRCODE = '22023';
    END IF;
    FOR day IN SELECT first_day + n FROM generate_series(0, last_day - first_day) AS n LOOP
        name := 'messages_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('upstream.' || name) IS NOT NULL;
        -- One maker at a time; whoever waited looks again, into the catalog itself: what to_regclass has cached may be
        -- older than the lock.
        PERFORM pg_advisory_xact_lock(hashtextextended('upstream.ensure_partitions', 0));
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_class WHERE relnamespace = 'upstream'::regnamespace AND relname = name);
        EXECUTE format('CREATE TABLE upstream.%I (LIKE upstream.messages INCLUDING ALL)', name);
        EXECUTE format('COMMENT ON TABLE upstream.%I IS %L', name, 'Messages received on ' || day || ' UTC.');
        EXECUTE format(
            'ALTER TABLE upstream.messages ATTACH PARTITION upstream.%I FOR VALUES FROM (%L) TO (%L)',
            name, day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
ALTER TABLE upstream.dead_letters ALTER COLUMN last_error SET STATISTICS -1;
ALTER TABLE upstream.deliveries ALTER COLUMN last_error SET STATISTICS -1;
ALTER TABLE upstream.quarantine ALTER COLUMN stanza SET STATISTICS -1;
ALTER TABLE upstream.conflicts
    ALTER COLUMN registration_token SET STATISTICS -1,
    ALTER COLUMN data_raw SET STATISTICS -1,
    ALTER COLUMN extra SET STATISTICS -1;
ALTER TABLE upstream.messages
    ALTER COLUMN registration_token SET STATISTICS -1,
    ALTER COLUMN data_raw SET STATISTICS -1,
    ALTER COLUMN extra SET STATISTICS -1;
ALTER TABLE upstream.message_ids RESET (autovacuum_vacuum_scale_factor);
CREATE INDEX message_ids_received_at_idx ON upstream.message_ids USING brin (received_at);
