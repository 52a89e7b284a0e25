-- migrate:up
-- What a site adds to the tables: columns, triggers.

-- With a column of the site's own in upstream.messages the message of a delivery has it, too. The function that gives it listed the
-- columns, and failed with one more (SQLSTATE 42P13): no handler got a message until it was dropped again.

-- As a variable of the table's type it has what columns there are; those of the site's own stay null.
CREATE FUNCTION upstream.kept_message(key uuid, arrival timestamptz) RETURNS SETOF upstream.messages
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    message upstream.messages;
BEGIN
    SELECT
        k.message_key, k.sender_id, k.message_id, k.registration_token, k.device_key, k.category, k.data, k.data_raw, k.extra,
        k.message_type, k.stanza_from, k.received_at
    INTO
        message.message_key, message.sender_id, message.message_id, message.registration_token, message.device_key,
        message.category, message.data, message.data_raw, message.extra, message.message_type, message.stanza_from,
        message.received_at
    FROM upstream.dead_messages AS k WHERE k.message_key = key AND k.received_at = arrival;
    IF NOT FOUND THEN
        SELECT
            upstream.release_key(c.message_key, c.fingerprint), c.sender_id, c.message_id, c.registration_token, c.device_key,
            c.category, c.data, c.data_raw, c.extra, c.message_type, c.stanza_from, c.received_at
        INTO
            message.message_key, message.sender_id, message.message_id, message.registration_token, message.device_key,
            message.category, message.data, message.data_raw, message.extra, message.message_type, message.stanza_from,
            message.received_at
        FROM upstream.conflicts AS c
        WHERE upstream.release_key(c.message_key, c.fingerprint) = key AND c.released_at IS NOT NULL
        LIMIT 1;
    END IF;
    IF FOUND THEN
        RETURN NEXT message;
    END IF;
END
$$;
COMMENT ON FUNCTION upstream.kept_message(uuid, timestamptz) IS 'The message of a delivery where upstream.messages has it no more, or never had: one that is kept for its dead letters, or a released conflict as one.';

CREATE OR REPLACE FUNCTION upstream.message_of(key uuid, arrival timestamptz) RETURNS SETOF upstream.messages
LANGUAGE sql STABLE ROWS 1 AS $$
    (SELECT * FROM upstream.messages WHERE messages.received_at = arrival AND messages.message_key = key)
    UNION ALL
    (SELECT * FROM upstream.kept_message(key, arrival))
    LIMIT 1
$$;

-- Who may call the one may call the other, also where functions are not everybody's.
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT DISTINCT CASE WHEN held.grantee = 0 THEN 'PUBLIC' ELSE held.grantee::regrole::text END AS grantee
        FROM pg_catalog.pg_proc AS p CROSS JOIN LATERAL pg_catalog.aclexplode(p.proacl) AS held
        WHERE p.oid = 'upstream.message_of(uuid, timestamptz)'::regprocedure AND held.grantee <> p.proowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION upstream.kept_message(uuid, timestamptz) TO %s', known.grantee);
    END LOOP;
END
$$;

-- As before, but what was to copy and what was copied are compared: a trigger may drop rows, and says nothing; the dead letters' messages
-- then went with the day.
CREATE OR REPLACE FUNCTION upstream.drop_partition(
    day date, OUT outcome text, OUT waiting bigint, OUT dead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = 1500 SET timezone = 'UTC' AS $$
DECLARE
    old_end timestamptz;
    target record;
    wanted bigint;
    copied bigint;
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
        WITH wanted AS MATERIALIZED (
            SELECT
                message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                message_type, stanza_from, received_at
            FROM %s AS m
            WHERE (m.received_at, m.message_key) IN (
                    SELECT received_at, message_key FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2)
                AND NOT EXISTS (
                    SELECT FROM upstream.dead_messages AS k
                    WHERE k.message_key = m.message_key AND k.received_at = m.received_at)
        ), copied AS (
            INSERT INTO upstream.dead_messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                message_type, stanza_from, received_at
            )
            SELECT * FROM wanted
            ON CONFLICT DO NOTHING
            RETURNING 1
        )
        SELECT
            upstream.waiting_deliveries($1, $2),
            (SELECT count(*) FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2),
            (SELECT count(*) FROM wanted),
            (SELECT count(*) FROM copied)
        $copy$, target.title) INTO waiting, dead, wanted, copied USING target.since, target.until;
    IF copied < wanted THEN
        RAISE EXCEPTION '% of % messages of dead letters were not copied to upstream.dead_messages: a trigger there drops them',
            wanted - copied, wanted
            USING ERRCODE = '55000', HINT = 'Drop or change the trigger: the day is kept until then.';
    END IF;
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

-- migrate:down
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
-- Where there is such a column, it fails when it is called, as it did.
SET LOCAL check_function_bodies = off;
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
DROP FUNCTION upstream.kept_message;
