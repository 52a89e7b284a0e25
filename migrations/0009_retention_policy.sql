-- migrate:up
-- Bounds of partitions are text in the catalog, and days are written into names and literals: every function that does
-- so sets DateStyle and TimeZone itself. With a session's own, `05.12.2026` is a day in May for one reader and in December
-- for another, and Pacific/Apia has no 30 December 2011 at all.

-- Every partition with its bounds, whatever it is called. Both are null for a default partition.
CREATE FUNCTION upstream.partitions(
    OUT relation oid, OUT relname name, OUT since timestamptz, OUT until timestamptz, OUT is_detaching boolean
) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' AS $$
    SELECT c.oid, c.relname,
        CASE WHEN bounds[1] = 'MINVALUE' THEN '-infinity' ELSE btrim(bounds[1], '''')::timestamptz END,
        CASE WHEN bounds[2] = 'MAXVALUE' THEN 'infinity' ELSE btrim(bounds[2], '''')::timestamptz END,
        i.inhdetachpending
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    LEFT JOIN LATERAL regexp_match(
        pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \((.*)\) TO \((.*)\)$') AS bounds ON true
    WHERE i.inhparent = 'upstream.messages'::regclass
$$;
COMMENT ON FUNCTION upstream.partitions() IS 'The partitions of messages with their bounds: what is attached, whatever it is called. Usually a day each.';

-- What counts is what is attached, never a name: a table of a day's name that is detached takes no inserts. It is left
-- alone, for whoever detached it has a use for it, and the day's partition gets another name.
--
-- SECURITY DEFINER: the worker's role inserts and selects, and owns nothing.
-- ATTACH takes a lock that lets inserts into the other days go on; CREATE TABLE … PARTITION OF would stop them.
CREATE OR REPLACE FUNCTION upstream.ensure_partitions(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' AS $$
DECLARE
    missing date[];
    day date;
    day_start timestamptz;
    day_end timestamptz;
    base name;
    title name;
    number integer;
    other record;
    made integer := 0;
BEGIN
    -- Not of class 22: a worker's clock that is out of its mind says nothing about a message.
    IF first_day < '2000-01-01' OR last_day > '2100-12-31' THEN
        RAISE EXCEPTION 'upstream.ensure_partitions makes partitions of the years 2000 to 2100, not of % to %',
            first_day, last_day
            USING ERRCODE = '55000', HINT = 'Set the clock of the machine that asks.';
    END IF;
    IF last_day - first_day > 400 THEN
        RAISE EXCEPTION 'upstream.ensure_partitions makes 400 days at most' USING ERRCODE = '22023';
    END IF;
    FOR pass IN 1..2 LOOP
        SELECT array_agg(first_day + n ORDER BY n) INTO missing
        FROM generate_series(0, last_day - first_day) AS n
        WHERE NOT EXISTS (
            SELECT FROM upstream.partitions() AS p
            WHERE p.since <= (first_day + n)::timestamptz AND p.until >= (first_day + n + 1)::timestamptz
                AND NOT p.is_detaching
        );
        IF missing IS NULL THEN
            RETURN 0;
        END IF;
        -- One maker at a time; whoever waited looks again.
        PERFORM pg_advisory_xact_lock(hashtextextended('upstream.ensure_partitions', 0));
    END LOOP;
    FOREACH day IN ARRAY missing LOOP
        day_start := day::timestamptz;
        day_end := (day + 1)::timestamptz;
        SELECT p.relname, p.is_detaching INTO other FROM upstream.partitions() AS p
        WHERE p.since < day_end AND p.until > day_start LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'the partition % takes a part of % UTC', quote_ident(other.relname), day
                USING ERRCODE = '55000', HINT = format(
                    'ALTER TABLE upstream.messages DETACH PARTITION upstream.%I%s', other.relname,
                    CASE WHEN other.is_detaching THEN ' FINALIZE' ELSE '' END);
        END IF;
        base := 'messages_' || to_char(day, 'YYYYMMDD');
        title := base;
        number := 0;
        WHILE EXISTS (SELECT FROM pg_class WHERE relnamespace = 'upstream'::regnamespace AND relname = title) LOOP
            number := number + 1;
            title := base || '_' || number;
        END LOOP;
        EXECUTE format('CREATE TABLE upstream.%I (LIKE upstream.messages INCLUDING ALL)', title);
        -- LIKE leaves these behind.
        EXECUTE format(
            'ALTER TABLE upstream.%I ALTER COLUMN registration_token SET STATISTICS 0, '
            'ALTER COLUMN data_raw SET STATISTICS 0, ALTER COLUMN extra SET STATISTICS 0', title);
        EXECUTE format('COMMENT ON TABLE upstream.%I IS %L', title, 'Messages received on ' || day || ' UTC.');
        EXECUTE format(
            'ALTER TABLE upstream.messages ATTACH PARTITION upstream.%I FOR VALUES FROM (%L) TO (%L)',
            title, day_start, day_end);
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
COMMENT ON FUNCTION upstream.ensure_partitions(date, date) IS 'Makes the missing partitions of messages for these UTC days, of the years 2000 to 2100, and returns their number. Where a day''s name is taken by a relation that is not attached, the partition is called messages_YYYYMMDD_1.';

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
CREATE UNIQUE INDEX retention_policy_one_row ON upstream.retention_policy ((true));
COMMENT ON TABLE upstream.retention_policy IS 'How long what is kept: one row, which the functions that delete enforce by the database''s clock; without it they delete nothing. A worker''s start makes a time longer, never shorter; `partitions policy --apply` sets it.';
COMMENT ON COLUMN upstream.retention_policy.messages IS 'How long messages, conflicts and quarantined stanzas are kept.';
COMMENT ON COLUMN upstream.retention_policy.dedupe_window IS 'How long message_ids knows a message.';
COMMENT ON COLUMN upstream.retention_policy.dead_letters IS 'How long dead letters are kept, with the messages they are about.';
COMMENT ON COLUMN upstream.retention_policy.attempts IS 'How long a record of attempts is kept; 0 for none. Nothing is recorded yet.';
COMMENT ON COLUMN upstream.retention_policy.set_by IS 'The role that set it last.';
COMMENT ON COLUMN upstream.retention_policy.set_at IS 'When it was set last.';

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
        WHEN 'messages' THEN policy.messages
        WHEN 'dedupe_window' THEN policy.dedupe_window
        WHEN 'dead_letters' THEN policy.dead_letters
    END;
END
$$;
REVOKE ALL ON FUNCTION upstream.retention_end(text) FROM PUBLIC;
COMMENT ON FUNCTION upstream.retention_end(text) IS 'What is older than this is too old, by the policy and by this server''s clock. For the functions that delete.';

-- The bodies that dead letters need when their day goes.
CREATE TABLE upstream.dead_messages (
    LIKE upstream.messages INCLUDING COMMENTS,
    CONSTRAINT dead_messages_pkey PRIMARY KEY (message_key, received_at)
);
ALTER TABLE upstream.dead_messages
    ALTER COLUMN registration_token SET STATISTICS 0,
    ALTER COLUMN data_raw SET STATISTICS 0,
    ALTER COLUMN extra SET STATISTICS 0;
CREATE INDEX dead_messages_message_id_idx ON upstream.dead_messages USING hash (message_id);
CREATE INDEX dead_messages_device_key_idx ON upstream.dead_messages (device_key);
COMMENT ON TABLE upstream.dead_messages IS 'Messages whose day has been dropped, kept for their dead letters: a row goes with the first run of retention after its last dead letter, and the delivery of one that was retried.';

CREATE INDEX dead_letters_died_at_idx ON upstream.dead_letters (died_at);

-- What a delivery is about, wherever it is kept.
CREATE OR REPLACE FUNCTION upstream.message_of(key uuid, arrival timestamptz) RETURNS SETOF upstream.messages
LANGUAGE sql STABLE ROWS 1 AS $$
    (SELECT
        message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from, received_at
    FROM upstream.messages WHERE messages.received_at = arrival AND messages.message_key = key)
    UNION ALL
    (SELECT
        message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from, received_at
    FROM upstream.dead_messages WHERE dead_messages.message_key = key AND dead_messages.received_at = arrival)
    UNION ALL
    (SELECT
        upstream.release_key(message_key, fingerprint), sender_id, message_id, registration_token, device_key, category,
        data, data_raw, extra, message_type, stanza_from, received_at
    FROM upstream.conflicts
    WHERE upstream.release_key(message_key, fingerprint) = key AND released_at IS NOT NULL)
    LIMIT 1
$$;
COMMENT ON FUNCTION upstream.message_of(uuid, timestamptz) IS 'The message of a delivery: a row of messages, one that is kept for its dead letters, or a released conflict as one.';

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

-- A delivery needs its day, unless its message is in dead_messages already. A dead letter does not: what it needs is
-- copied. With the partition locked nobody is storing a message of this day, so no delivery of it can appear unseen; and
-- one statement, one snapshot: what is retried or dies meanwhile is seen as one or the other, and has its message either way.
CREATE OR REPLACE FUNCTION upstream.drop_partition(
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
        (SELECT count(*) FROM upstream.deliveries AS d
        WHERE d.received_at >= target.since AND d.received_at < target.until AND NOT EXISTS (
            SELECT FROM upstream.dead_messages AS k
            WHERE k.message_key = d.message_key AND k.received_at = d.received_at)),
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
            (SELECT count(*) FROM upstream.deliveries AS d
            WHERE d.received_at >= $1 AND d.received_at < $2 AND NOT EXISTS (
                SELECT FROM upstream.dead_messages AS k
                WHERE k.message_key = d.message_key AND k.received_at = d.received_at)),
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
COMMENT ON FUNCTION upstream.drop_partition(date) IS 'Drops the partition that holds a day the retention policy keeps no longer; messages that dead letters need go to dead_messages. Outcome: dropped, with the count of those dead letters; absent; pending, with the count of deliveries that still need it; locked, somebody reads the table; busy, another worker is at it.';

-- Forgets what the ledger knew, in some of its blocks. Gives the number of rows, or null where another worker is at it.
--
-- What has a body somewhere is left out: a copy that comes again would be stored beside it.
DROP FUNCTION upstream.purge_message_ids(timestamptz, bigint, integer);
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
DROP FUNCTION upstream.purge_conflicts(timestamptz, integer);
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

DROP FUNCTION upstream.purge_quarantine(timestamptz, integer);
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

ALTER TABLE upstream.retention_runs ADD COLUMN dead_letters_deleted bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN upstream.retention_runs.dead_letters_deleted IS 'Dead letters that it deleted for their age.';
COMMENT ON COLUMN upstream.retention_runs.started_at IS 'When it began, by the database''s clock.';
COMMENT ON COLUMN upstream.retention_runs.partitions_held IS 'Days that are too old and that it kept, for deliveries need them.';
COMMENT ON TABLE upstream.dead_letters IS 'Deliveries that gave up, until they are retried, discarded or older than retention_policy.dead_letters.';

-- migrate:down
-- Dead letters have their messages in the days again.
DO $$
DECLARE
    day date;
BEGIN
    FOR day IN SELECT DISTINCT (received_at AT TIME ZONE 'UTC')::date FROM upstream.dead_messages LOOP
        PERFORM upstream.ensure_partitions(day, day);
    END LOOP;
    INSERT INTO upstream.messages SELECT * FROM upstream.dead_messages ON CONFLICT DO NOTHING;
END
$$;
DROP FUNCTION upstream.purge_dead_messages(bigint, integer);
DROP FUNCTION upstream.purge_dead_letters(integer);
DROP FUNCTION upstream.purge_quarantine(integer);
DROP FUNCTION upstream.purge_conflicts(integer);
DROP FUNCTION upstream.purge_message_ids(bigint, integer);
DROP FUNCTION upstream.keep_dead_messages(date, integer);
ALTER TABLE upstream.retention_runs DROP COLUMN dead_letters_deleted;
COMMENT ON COLUMN upstream.retention_runs.started_at IS 'When it began, by the clock of whoever ran it: what was too old is judged by it.';
COMMENT ON COLUMN upstream.retention_runs.partitions_held IS 'Days that are too old and that it kept, for deliveries or dead letters need them.';
COMMENT ON TABLE upstream.dead_letters IS 'Deliveries that gave up, until they are retried or discarded.';
DROP INDEX upstream.dead_letters_died_at_idx;
CREATE OR REPLACE FUNCTION upstream.message_of(key uuid, arrival timestamptz) RETURNS SETOF upstream.messages
LANGUAGE sql STABLE ROWS 1 AS $$
    (SELECT
        message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
        message_type, stanza_from, received_at
    FROM upstream.messages WHERE messages.received_at = arrival AND messages.message_key = key)
    UNION ALL
    (SELECT
        upstream.release_key(message_key, fingerprint), sender_id, message_id, registration_token, device_key, category,
        data, data_raw, extra, message_type, stanza_from, received_at
    FROM upstream.conflicts
    WHERE upstream.release_key(message_key, fingerprint) = key AND released_at IS NOT NULL)
    LIMIT 1
$$;
COMMENT ON FUNCTION upstream.message_of(uuid, timestamptz) IS 'The message of a delivery: a row of messages, or a released conflict as one.';

CREATE OR REPLACE FUNCTION upstream.drop_partition(
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
COMMENT ON FUNCTION upstream.drop_partition(date) IS 'Drops one day of messages. Outcome: dropped; absent; pending, with the counts of deliveries and dead letters that still need it; locked, somebody reads the table; busy, another worker is at it.';

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
        SELECT ctid FROM upstream.conflicts AS c
        WHERE received_at < before AND last_seen_at < before AND (
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
REVOKE ALL ON FUNCTION upstream.purge_conflicts(timestamptz, integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_conflicts(timestamptz, integer) IS 'Deletes conflicts that were last seen before a time, a day ago at the latest, except released ones that deliveries or dead letters still need: most of them at once. Null where another worker is at it.';

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

DROP TABLE upstream.dead_messages;
DROP FUNCTION upstream.retention_end(text);
DROP FUNCTION upstream.set_retention(interval, interval, interval, interval);
DROP FUNCTION upstream.raise_retention(interval, interval, interval, interval);
DROP TABLE upstream.retention_policy;
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
COMMENT ON FUNCTION upstream.ensure_partitions(date, date) IS 'Makes the missing partitions of messages for these UTC days and returns their number.';
DROP FUNCTION upstream.partitions();
