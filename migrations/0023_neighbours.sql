-- migrate:up
-- A publication FOR ALL TABLES refuses to update or delete rows of a table without a replica identity, and these have no key.
-- Catalog entries only: what is written to the log changes where wal_level is logical, for a few rows a day.
SET LOCAL lock_timeout = '1500ms';
ALTER TABLE upstream.retention_policy REPLICA IDENTITY FULL;
ALTER TABLE upstream.retention_runs REPLICA IDENTITY FULL;
ALTER TABLE upstream.replay_events REPLICA IDENTITY FULL;

-- As in 0012, and what a replay that has begun has yet to send counts, too.
CREATE OR REPLACE FUNCTION upstream.waiting_deliveries(since timestamptz, until timestamptz) RETURNS bigint
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

-- migrate:down
CREATE OR REPLACE FUNCTION upstream.waiting_deliveries(since timestamptz, until timestamptz) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*)
    FROM (
        SELECT message_key, received_at FROM upstream.deliveries
        WHERE received_at >= since AND received_at < until
        UNION ALL
        SELECT entry.key, entry.at
        FROM upstream.delivery_blocks CROSS JOIN LATERAL unnest(keys, times) AS entry (key, at)
        WHERE entry.at >= since AND entry.at < until
    ) AS d
    WHERE NOT EXISTS (
        SELECT FROM upstream.dead_messages AS k
        WHERE k.message_key = d.message_key AND k.received_at = d.received_at)
$$;
COMMENT ON FUNCTION upstream.waiting_deliveries(timestamptz, timestamptz) IS 'How many deliveries need the messages of a time, in rows and in blocks.';
ALTER TABLE upstream.retention_policy REPLICA IDENTITY DEFAULT;
ALTER TABLE upstream.retention_runs REPLICA IDENTITY DEFAULT;
ALTER TABLE upstream.replay_events REPLICA IDENTITY DEFAULT;
