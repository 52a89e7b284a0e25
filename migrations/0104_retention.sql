-- migrate:up
-- Retention: how long what is kept, and the functions that delete.
--
-- They are SECURITY DEFINER, for the worker's role may delete neither messages nor what the ledger knows. Each deletes only what is too
-- old by the one row of upstream.retention_policy and by this server's clock; and one advisory lock, held to the transaction's
-- end, lets one worker at a time do it, behind a pooler too.

CREATE TABLE upstream.retention_policy (
    messages interval NOT NULL,
    dedupe_window interval NOT NULL,
    dead_letters interval NOT NULL,
    attempts interval NOT NULL,
    set_by text NOT NULL DEFAULT session_user,
    set_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT retention_policy_messages_check CHECK (messages BETWEEN '1 day' AND '36500 days'),
    CONSTRAINT retention_policy_dedupe_window_check
        CHECK (dedupe_window BETWEEN '28 days' AND '36500 days' AND dedupe_window >= messages),
    CONSTRAINT retention_policy_dead_letters_check CHECK (dead_letters BETWEEN '1 day' AND '36500 days'),
    CONSTRAINT retention_policy_attempts_check CHECK (attempts BETWEEN '0' AND '36500 days')
);
-- Without a key of its own, a publication FOR ALL TABLES would refuse to change its rows.
ALTER TABLE upstream.retention_policy REPLICA IDENTITY FULL;
CREATE UNIQUE INDEX retention_policy_one_row ON upstream.retention_policy ((true));
COMMENT ON TABLE upstream.retention_policy IS 'How long what is kept: one row, which the functions that delete enforce by the database''s clock; without it they delete nothing. A worker''s start makes a time longer, never shorter; `partitions policy --apply` sets it.';
COMMENT ON COLUMN upstream.retention_policy.messages IS 'How long messages, conflicts and quarantined stanzas are kept.';
COMMENT ON COLUMN upstream.retention_policy.dedupe_window IS 'How long message_ids knows a message.';
COMMENT ON COLUMN upstream.retention_policy.dead_letters IS 'How long dead letters are kept, with the messages they are about.';
COMMENT ON COLUMN upstream.retention_policy.attempts IS 'How long a record of attempts is kept; 0 for none. Nothing is recorded yet.';
COMMENT ON COLUMN upstream.retention_policy.set_by IS 'The role that set it last.';
COMMENT ON COLUMN upstream.retention_policy.set_at IS 'When it was set last.';

CREATE TABLE upstream.retention_runs (
    finished_at timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    run_by text NOT NULL DEFAULT session_user,
    partitions_dropped integer NOT NULL,
    partitions_held integer NOT NULL,
    ids_deleted bigint NOT NULL,
    conflicts_deleted bigint NOT NULL,
    quarantine_deleted bigint NOT NULL,
    dead_letters_deleted bigint NOT NULL DEFAULT 0
);
ALTER TABLE upstream.retention_runs REPLICA IDENTITY FULL;
CREATE INDEX retention_runs_finished_at_idx ON upstream.retention_runs (finished_at);
COMMENT ON TABLE upstream.retention_runs IS 'The runs of retention that left nothing for want of a lock: workers make one each UTC day.';
COMMENT ON COLUMN upstream.retention_runs.finished_at IS 'When it had ended.';
COMMENT ON COLUMN upstream.retention_runs.started_at IS 'When it began, by the database''s clock.';
COMMENT ON COLUMN upstream.retention_runs.run_by IS 'The role that ran it.';
COMMENT ON COLUMN upstream.retention_runs.partitions_dropped IS 'Days of messages that it dropped.';
COMMENT ON COLUMN upstream.retention_runs.partitions_held IS 'Days that are too old and that it kept, for deliveries need them.';
COMMENT ON COLUMN upstream.retention_runs.ids_deleted IS 'Rows of the ledger that it deleted.';
COMMENT ON COLUMN upstream.retention_runs.conflicts_deleted IS 'Conflicts that it deleted.';
COMMENT ON COLUMN upstream.retention_runs.quarantine_deleted IS 'Quarantined stanzas that it deleted.';
COMMENT ON COLUMN upstream.retention_runs.dead_letters_deleted IS 'Dead letters that it deleted for their age.';

-- What a worker may do to the policy. Gives the row where it was made or changed.
CREATE FUNCTION upstream.raise_retention(
    keep_messages interval, keep_ids interval, keep_dead_letters interval, keep_attempts interval
) RETURNS SETOF upstream.retention_policy
LANGUAGE sql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO upstream.retention_policy AS known (messages, dedupe_window, dead_letters, attempts)
    VALUES (keep_messages, keep_ids, keep_dead_letters, keep_attempts)
    ON CONFLICT ((true)) DO UPDATE SET
        messages = greatest(known.messages, excluded.messages),
        dedupe_window = greatest(known.dedupe_window, excluded.dedupe_window),
        dead_letters = greatest(known.dead_letters, excluded.dead_letters),
        attempts = greatest(known.attempts, excluded.attempts),
        set_by = excluded.set_by,
        set_at = excluded.set_at
    WHERE known.messages < excluded.messages OR known.dedupe_window < excluded.dedupe_window
        OR known.dead_letters < excluded.dead_letters OR known.attempts < excluded.attempts
    RETURNING *
$$;
REVOKE ALL ON FUNCTION upstream.raise_retention(interval, interval, interval, interval) FROM PUBLIC;
COMMENT ON FUNCTION upstream.raise_retention(interval, interval, interval, interval) IS 'Sets the retention policy where there is none, and makes what it keeps for a shorter time longer; gives the row where that changed something. What a worker calls at its start.';

-- With the caller's rights: only who may write the table, its owner, makes a time shorter.
CREATE FUNCTION upstream.set_retention(
    keep_messages interval, keep_ids interval, keep_dead_letters interval, keep_attempts interval
) RETURNS SETOF upstream.retention_policy
LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO upstream.retention_policy (messages, dedupe_window, dead_letters, attempts)
    VALUES (keep_messages, keep_ids, keep_dead_letters, keep_attempts)
    ON CONFLICT ((true)) DO UPDATE SET
        messages = excluded.messages,
        dedupe_window = excluded.dedupe_window,
        dead_letters = excluded.dead_letters,
        attempts = excluded.attempts,
        set_by = excluded.set_by,
        set_at = excluded.set_at
    RETURNING *
$$;
REVOKE ALL ON FUNCTION upstream.set_retention(interval, interval, interval, interval) FROM PUBLIC;
COMMENT ON FUNCTION upstream.set_retention(interval, interval, interval, interval) IS 'Sets the retention policy, to shorter times as well: `partitions policy --apply`. Needs the rights of the tables'' owner.';

-- The one place where "too old" is judged: by this server's clock, and by the policy, which nobody can change before the
-- caller's transaction has ended.
--
-- A message may be stored with a time up to an hour before its commit: what was parsed shortly before midnight, and what waited in an
-- outage. Workers stamp by the database's clock, and older times are not stored. So what is kept by that time is kept for an hour longer,
-- and nothing that was acked is deleted before the policy's time has passed since its commit.
CREATE FUNCTION upstream.retention_end(what text) RETURNS timestamptz
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
        WHEN 'messages' THEN policy.messages + interval '1 hour'
        WHEN 'dedupe_window' THEN policy.dedupe_window + interval '1 hour'
        WHEN 'dead_letters' THEN policy.dead_letters
        WHEN 'attempts' THEN policy.attempts
    END;
END
$$;
REVOKE ALL ON FUNCTION upstream.retention_end(text) FROM PUBLIC;
COMMENT ON FUNCTION upstream.retention_end(text) IS 'What is older than this is too old, by the policy and by this server''s clock; messages and ids an hour later, as they may be stored with a time that is an hour old. For the functions that delete.';

-- Messages.

-- A delivery needs its day, in a row or in a block, unless its message is in dead_messages already; so does what a replay that has
-- begun has yet to send. Stable, so that it sees what the statement sees that asks: a block that is being unpacked is there as one or
-- the other.
CREATE FUNCTION upstream.waiting_deliveries(since timestamptz, until timestamptz) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*)
    FROM (
        SELECT message_key, received_at FROM upstream.deliveries
        WHERE received_at >= since AND received_at < until
        UNION ALL
        SELECT entry.key, entry.at
        FROM upstream.delivery_blocks CROSS JOIN LATERAL unnest(keys, times) AS entry (key, at)
        WHERE entry.at >= since AND entry.at < until
        UNION ALL
        SELECT entry.key, entry.at
        FROM upstream.replays AS r JOIN upstream.replay_messages AS chosen USING (replay_id)
        CROSS JOIN LATERAL unnest(chosen.received_at, chosen.message_key) WITH ORDINALITY AS entry (at, key, number)
        WHERE r.state IN ('running', 'paused') AND r.first_received_at < until AND r.last_received_at >= since
            -- 1,000 messages to a row.
            AND chosen.chunk >= r.done / 1000 AND chosen.chunk::bigint * 1000 + entry.number > r.done
            AND entry.at >= since AND entry.at < until
    ) AS d
    WHERE NOT EXISTS (
        SELECT FROM upstream.dead_messages AS k
        WHERE k.message_key = d.message_key AND k.received_at = d.received_at)
$$;
COMMENT ON FUNCTION upstream.waiting_deliveries(timestamptz, timestamptz) IS 'How many deliveries need the messages of a time, in rows, in blocks, and of replays that have begun and not ended.';

-- Copies a part of what drop_partition would have to copy while it holds the table.
CREATE FUNCTION upstream.keep_dead_messages(day date, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    kept integer;
BEGIN
    IF day IS NULL OR (day + 1)::timestamptz > upstream.retention_end('messages') THEN
        RAISE EXCEPTION 'upstream.keep_dead_messages leaves what the retention policy keeps where it is'
            USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    INSERT INTO upstream.dead_messages (
        message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from, received_at
    )
    SELECT
        m.message_key, m.sender_id, m.message_id, m.registration_token, m.device_key, m.category, m.data, m.data_raw,
        m.extra, m.message_type, m.stanza_from, m.received_at
    FROM upstream.partitions() AS p
    JOIN upstream.dead_letters AS d ON d.received_at >= p.since AND d.received_at < p.until
    JOIN upstream.messages AS m ON m.received_at = d.received_at AND m.message_key = d.message_key
    WHERE p.since < (day + 1)::timestamptz AND p.until > day::timestamptz
        AND NOT EXISTS (
            SELECT FROM upstream.dead_messages AS k
            WHERE k.message_key = d.message_key AND k.received_at = d.received_at)
    LIMIT most
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS kept = ROW_COUNT;
    RETURN kept;
END
$$;
REVOKE ALL ON FUNCTION upstream.keep_dead_messages(date, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.keep_dead_messages(date, integer) IS 'Copies the messages that dead letters of a day need into dead_messages, most of them at once, so that dropping the day has little to do. Null where another worker is at it.';

-- Drops the partition of one UTC day.
--
-- Ingest waits 50 ms for it at most. DROP TABLE needs messages for itself for a moment, and whoever comes while it waits
-- for that queues behind it. The partition comes first, with a wait that is felt only by those who read this very day and
-- that is long enough for an autovacuum to give way (deadlock_timeout: 1 s). DETACH … CONCURRENTLY is no way: it can't
-- run inside a function, so the worker would have to own the table, and broken off it leaves a day that is half there.
--
-- A dead letter does not need its day: what it needs is copied. With the partition locked nobody is storing a message of this day, so
-- no delivery of it can appear unseen; and one statement, one snapshot: what is retried or dies meanwhile is seen as one or
-- the other, and has its message either way.
CREATE FUNCTION upstream.drop_partition(
    day date, OUT outcome text, OUT waiting bigint, OUT dead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = 1500 SET timezone = 'UTC' AS $$
DECLARE
    old_end timestamptz;
    target record;
BEGIN
    old_end := upstream.retention_end('messages');
    IF day IS NULL OR (day + 1)::timestamptz > old_end THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that the retention policy keeps' USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        outcome := 'busy';
        RETURN;
    END IF;
    SELECT p.since, p.until, format('%I.%I', n.nspname, c.relname) AS title INTO target
    FROM upstream.partitions() AS p JOIN pg_class AS c ON c.oid = p.relation JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE p.since < (day + 1)::timestamptz AND p.until > day::timestamptz AND NOT p.is_detaching
    ORDER BY p.since LIMIT 1;
    IF NOT FOUND THEN
        outcome := 'absent';
        RETURN;
    END IF;
    -- It may hold more than a day.
    IF target.until > old_end THEN
        RAISE EXCEPTION 'upstream.drop_partition drops no day that the retention policy keeps' USING ERRCODE = '22023';
    END IF;
    SELECT
        upstream.waiting_deliveries(target.since, target.until),
        (SELECT count(*) FROM upstream.dead_letters AS d
        WHERE d.received_at >= target.since AND d.received_at < target.until)
    INTO waiting, dead;
    IF waiting > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', target.title);
    EXECUTE format($copy$
        WITH copied AS (
            INSERT INTO upstream.dead_messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                message_type, stanza_from, received_at
            )
            SELECT
                message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                message_type, stanza_from, received_at
            FROM %s AS m
            WHERE (m.received_at, m.message_key) IN (
                SELECT received_at, message_key FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2)
            ON CONFLICT DO NOTHING
        )
        SELECT
            upstream.waiting_deliveries($1, $2),
            (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2)
        $copy$, target.title) INTO waiting, dead USING target.since, target.until;
    IF waiting > 0 THEN
        outcome := 'pending';
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '50', true);
    EXECUTE format('DROP TABLE %s', target.title);
    outcome := 'dropped';
EXCEPTION
    -- Caught, it is not an error in PostgreSQL's log each time a report reads the table.
    WHEN lock_not_available THEN
        outcome := 'locked';
END
$$;
REVOKE ALL ON FUNCTION upstream.drop_partition(date) FROM PUBLIC;
COMMENT ON FUNCTION upstream.drop_partition(date) IS 'Drops the partition that holds a day the retention policy keeps no longer; messages that dead letters need go to dead_messages. Outcome: dropped, with the count of those dead letters; absent; pending, with the count of deliveries that still need it; locked, somebody reads the table; busy, another worker is at it.';

-- One statement, one snapshot: a dead letter that is retried meanwhile, or a delivery that dies, is seen as one or the other.
CREATE FUNCTION upstream.purge_dead_messages(first_block bigint, blocks integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_row tid := format('(%s,0)', first_block);
    end_row tid := format('(%s,0)', first_block + blocks);
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.dead_messages AS k
    WHERE ctid >= first_row AND ctid < end_row
        AND NOT EXISTS (
            SELECT FROM upstream.deliveries AS d
            WHERE d.message_key = k.message_key AND d.received_at = k.received_at)
        AND NOT EXISTS (
            SELECT FROM upstream.dead_letters AS d
            WHERE d.message_key = k.message_key AND d.received_at = k.received_at);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_dead_messages(bigint, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_dead_messages(bigint, integer) IS 'Deletes messages that no dead letter and no delivery needs any more, in some blocks of the table. Null where another worker is at it.';

-- The rest: each function deletes some rows, and gives their number, or null where another worker is at it.

-- What has a body somewhere is left out: a copy that comes again would be stored beside it.
CREATE FUNCTION upstream.purge_message_ids(first_block bigint, blocks integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_end timestamptz := upstream.retention_end('dedupe_window');
    first_row tid := format('(%s,0)', first_block);
    end_row tid := format('(%s,0)', first_block + blocks);
    kept tstzmultirange;
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(range_agg(tstzrange(p.since, p.until)), '{}') INTO kept
    FROM upstream.partitions() AS p WHERE p.since IS NOT NULL;
    DELETE FROM upstream.message_ids AS known
    WHERE ctid >= first_row AND ctid < end_row AND received_at < old_end
        AND NOT received_at <@ kept
        AND NOT EXISTS (SELECT FROM upstream.dead_messages AS k WHERE k.message_key = known.message_key);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_message_ids(bigint, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_message_ids(bigint, integer) IS 'Deletes ledger rows past retention_policy.dedupe_window in some blocks of the table, except where the message, or its day, is still there. Null where another worker is at it.';

-- The time is asked again outside: a copy that comes meanwhile makes the row young. A released conflict is what its
-- deliveries and dead letters are loaded from, and stays for as long as there are any.
CREATE FUNCTION upstream.purge_conflicts(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_end timestamptz := upstream.retention_end('messages');
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.conflicts
    WHERE last_seen_at < old_end AND ctid IN (
        SELECT ctid FROM upstream.conflicts AS c
        WHERE received_at < old_end AND last_seen_at < old_end AND (
            released_at IS NULL
            OR NOT EXISTS (
                SELECT FROM upstream.deliveries WHERE message_key = upstream.release_key(c.message_key, c.fingerprint))
            AND NOT EXISTS (
                SELECT FROM upstream.dead_letters WHERE message_key = upstream.release_key(c.message_key, c.fingerprint))
        )
        LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_conflicts(integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_conflicts(integer) IS 'Deletes conflicts last seen before retention_policy.messages ago, except released ones that deliveries or dead letters still need: most of them at once. Null where another worker is at it.';

CREATE FUNCTION upstream.purge_quarantine(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_end timestamptz := upstream.retention_end('messages');
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.quarantine
    WHERE last_seen_at < old_end AND ctid IN (
        SELECT ctid FROM upstream.quarantine WHERE received_at < old_end AND last_seen_at < old_end LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_quarantine(integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_quarantine(integer) IS 'Deletes quarantined stanzas last seen before retention_policy.messages ago: most of them at once. Null where another worker is at it.';

-- The time is asked again outside: one that dies again meanwhile is young.
CREATE FUNCTION upstream.purge_dead_letters(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_end timestamptz := upstream.retention_end('dead_letters');
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.dead_letters
    WHERE died_at < old_end AND ctid = ANY (ARRAY(
        SELECT ctid FROM upstream.dead_letters WHERE died_at < old_end ORDER BY died_at LIMIT most FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_dead_letters(integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_dead_letters(integer) IS 'Deletes dead letters that died before retention_policy.dead_letters ago: most of them at once. Null where another worker is at it.';

-- The days of attempts.

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

-- migrate:down
DROP FUNCTION
    upstream.purge_attempts, upstream.ensure_attempts, upstream.purge_dead_letters, upstream.purge_quarantine,
    upstream.purge_conflicts, upstream.purge_message_ids, upstream.purge_dead_messages, upstream.drop_partition,
    upstream.keep_dead_messages, upstream.waiting_deliveries, upstream.retention_end, upstream.set_retention,
    upstream.raise_retention;
DROP TABLE upstream.retention_runs, upstream.retention_policy;
