import Dispatcher
import MessageStore
import Postgres
import Vocabulary

/// The statements that put a replay's deliveries into the handlers' queues.
enum FeedStatements {
    /// Counts a replay's pending deliveries, up to a limit.
    static let pending: PreparedStatement<PendingCount> = """
        SELECT (
            SELECT count(*) FROM (
                SELECT FROM upstream.deliveries WHERE replay_id = \(\.replay) LIMIT \(\.limit)
            ) AS counted
        ) + (
            SELECT coalesce(sum(cardinality(keys)), 0) FROM upstream.delivery_blocks WHERE replay_id = \(\.replay)
        )::int8
        """

    struct PendingCount: Sendable {
        var replay: Digest128
        var limit: Int64
    }

    struct Step: Sendable {
        var lease: ReplayLease
        var position: Int64
        var count: Int64
        var end: Int64 { position + count }
    }

    static let advance: PreparedStatement<Step> = """
        UPDATE upstream.replays
        SET done = done + \(\.count), lease_until = now() + \(\.lease.length.microseconds) * interval '1 microsecond'
        WHERE replay_id = \(\.lease.replay) AND lease_token = \(\.lease.token) AND state = 'running'
            AND done = \(\.position) AND done + \(\.count) <= planned
        RETURNING done, skipped
        """

    /// Moves the position back by the end of a step that did not fit.
    static func retreat(_ count: Int64, _ lease: ReplayLease) -> SQL {
        """
        UPDATE upstream.replays SET done = done - \(count)
        WHERE replay_id = \(lease.replay) AND lease_token = \(lease.token)
        """
    }

    static func skip(_ count: Int64, _ lease: ReplayLease) -> SQL {
        """
        UPDATE upstream.replays SET skipped = skipped + \(count)
        WHERE replay_id = \(lease.replay) AND lease_token = \(lease.token)
        """
    }

    /// Queues the deliveries of the step, and returns how many.
    ///
    /// A dead letter is deleted in the statement that inserts its delivery. A message whose day was dropped exists as
    /// long as it has a dead letter; retention deletes it with the last one, but sees the delivery in its place because
    /// one statement does both.
    ///
    /// A pending delivery stays as it is. Skipped are messages whose body is gone, and those for a handler that was
    /// removed since; the handlers' rows are locked, so that a removal waits for this step and deletes what it has
    /// queued.
    static let queue: PreparedStatement<Step> = """
        WITH picked AS MATERIALIZED (
            \(picked(\.lease.replay, \.position, \.end))
        ), known AS MATERIALIZED (
            SELECT name FROM upstream.handlers WHERE name IN (SELECT handler FROM picked) FOR KEY SHARE
        ), revived AS (
            DELETE FROM upstream.dead_letters AS dead USING picked
            WHERE dead.message_key = picked.message_key AND dead.handler = picked.handler
                AND picked.handler IN (SELECT name FROM known)
            RETURNING dead.message_key, dead.handler
        ), queued AS (
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, device_key, replay_id
            )
            SELECT
                picked.handler, picked.message_key, picked.received_at, now(),
                CASE WHEN s.by_device THEN m.device_key END, picked.replay_id
            FROM picked
            LEFT JOIN (
                SELECT handler, bool_or(by_device) AS by_device FROM upstream.subscriptions GROUP BY handler
            ) AS s ON s.handler = picked.handler
            CROSS JOIN LATERAL (
                SELECT device_key FROM upstream.messages AS m
                WHERE m.received_at = picked.received_at AND m.message_key = picked.message_key
                UNION ALL
                SELECT device_key FROM upstream.dead_messages AS m
                WHERE m.received_at = picked.received_at AND m.message_key = picked.message_key
                    AND (picked.message_key, picked.handler) IN (SELECT message_key, handler FROM revived)
                LIMIT 1
            ) AS m
            WHERE picked.handler IN (SELECT name FROM known) AND (
                NOT picked.only_failed
                OR (picked.message_key, picked.handler) IN (SELECT message_key, handler FROM revived)
            )
            ORDER BY picked.message_key, picked.handler
            ON CONFLICT (message_key, handler) DO NOTHING
            RETURNING 1
        )
        SELECT count(*) FROM queued
        """

    struct PackedStep: Sendable {
        var step: Step
        var offer: LeaseOffer
    }

    /// Whether a step must go into rows: a dead letter becomes a delivery in one statement, and deliveries by device
    /// wait in rows.
    static let needsRows: PreparedStatement<Step> = """
        SELECT EXISTS (
            SELECT FROM upstream.subscriptions AS s JOIN upstream.replays AS p ON s.handler = ANY (p.handlers)
            WHERE p.replay_id = \(\.lease.replay) AND s.by_device
        ) OR EXISTS (
            SELECT FROM (
                \(picked(\.lease.replay, \.position, \.end))
            ) AS picked
            JOIN upstream.dead_letters AS dead
                ON dead.message_key = picked.message_key AND dead.handler = picked.handler
        )
        """

    /// Puts the deliveries of the step that fit into a block per handler.
    ///
    /// Returns them with their messages, and where the step was cut, if it was. Skips what ``queue`` skips.
    static let pack: PreparedStatement<PackedStep> = """
        WITH picked AS MATERIALIZED (
            \(picked(\.step.lease.replay, \.step.position, \.step.end))
        ), known AS MATERIALIZED (
            SELECT name FROM upstream.handlers WHERE name IN (SELECT handler FROM picked) FOR KEY SHARE
        ), found AS MATERIALIZED (
            SELECT picked.handler, picked.replay_id, picked.place, m.*,
                coalesce(sum(m.size) OVER (
                    ORDER BY picked.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ), 0) AS before
            FROM picked
            CROSS JOIN LATERAL (
                SELECT *, \(raw: MessageSize.sql) AS size FROM upstream.messages AS m
                WHERE m.received_at = picked.received_at AND m.message_key = picked.message_key
                OFFSET 0
            ) AS m
            WHERE picked.handler IN (SELECT name FROM known) AND NOT EXISTS (
                SELECT FROM upstream.deliveries AS d
                WHERE d.message_key = picked.message_key AND d.handler || '' = picked.handler
            )
        ), fitting AS (
            SELECT * FROM found WHERE before < greatest(\(\.offer.bytes), 1)
        ), packed AS (
            INSERT INTO upstream.delivery_blocks (
                token, number, handler, lease_owner, lease_until, keys, times, replay_id
            )
            SELECT
                \(\.offer.token), \(\.offer.block), handler, \(\.offer.owner), now() + \(\.offer.duration),
                array_agg(message_key), array_agg(received_at), replay_id
            FROM fitting GROUP BY handler, replay_id
        )
        SELECT
            handler, message_key, received_at, message_id, sender_id, category, registration_token, device_key,
            coalesce(data_raw, data::text), extra, message_type,
            (SELECT min(place) FROM found WHERE before >= greatest(\(\.offer.bytes), 1))
        FROM fitting
        """

    private static func picked<Parameters>(
        _ replay: any KeyPath<Parameters, Digest128> & Sendable,
        _ position: any KeyPath<Parameters, Int64> & Sendable,
        _ end: any KeyPath<Parameters, Int64> & Sendable
    ) -> PreparedStatement<Parameters> {
        """
        SELECT p.replay_id, p.only_failed, p.handlers[t.handler] AS handler, t.received_at, t.message_key,
            r.chunk::int8 * \(raw: chunk) + t.number - 1 AS place
        FROM upstream.replays AS p
        JOIN upstream.replay_messages AS r
            ON r.replay_id = p.replay_id
            AND r.chunk BETWEEN \(position) / \(raw: chunk) AND (\(end) - 1) / \(raw: chunk)
        CROSS JOIN LATERAL unnest(r.received_at, r.message_key, r.handler)
            WITH ORDINALITY AS t (received_at, message_key, handler, number)
        WHERE p.replay_id = \(replay)
            AND r.chunk::int8 * \(raw: chunk) + t.number - 1 >= \(position)
            AND r.chunk::int8 * \(raw: chunk) + t.number - 1 < \(end)
        """
    }

    private static let chunk = String(ReplayPlanner.chunkSize)
}
