import MessageStore
import Postgres

/// Puts a replay's messages into the queues of its handlers.
///
/// A step moves the replay's position and inserts the deliveries in one transaction: killed at any point, a run goes on
/// where the committed steps ended, with nothing skipped and nothing queued twice.
enum HandlerFeed {
    /// What a step came to.
    struct Step: Sendable, Equatable {
        /// Whether the lease held; if not, nothing was done.
        var standing: ReplayLease.Standing
        /// Where the run is now.
        var done: Int64 = 0
        /// How many of those that are done were passed over.
        var skipped: Int64 = 0
    }

    /// How many deliveries of the replay still wait for their handler, up to a limit.
    static func waiting(
        _ connection: isolated PostgresConnection,
        _ replay: String,
        limit: Int64
    ) throws(PostgresError) -> Int64 {
        var parameters = PostgresParameters()
        parameters.append(replay)
        parameters.append(limit)
        return try connection.execute(waiting, parameters).integer(0, 0) ?? 0
    }

    private static let waiting = PostgresStatement(
        """
        SELECT count(*) FROM (
            SELECT FROM upstream.deliveries WHERE replay_id = $1::text::uuid LIMIT $2
        ) AS counted
        """
    )

    /// Queues the messages from a place on.
    ///
    /// - Parameters:
    ///   - connection: The way to the database.
    ///   - lease: Fences the step: without it nothing is done.
    ///   - position: Where the run is; a step from anywhere else does nothing either.
    ///   - count: How many; above 0.
    /// - Throws: ``PostgresError``
    /// - Returns: Where the run is now, or that it is not ours any more.
    static func step(
        _ connection: isolated PostgresConnection,
        _ lease: ReplayLease,
        from position: Int64,
        count: Int64
    ) throws(PostgresError) -> Step {
        try connection.transaction { connection throws(PostgresError) in
            var move = lease.parameters
            move.append(lease.length)
            move.append(position)
            move.append(count)
            let moved = try connection.execute(advance, move)
            guard moved.count == 1, let done = moved.integer(0, 0), let skipped = moved.integer(0, 1) else {
                return try missed(connection, lease, from: position, count: count)
            }
            var parameters = PostgresParameters()
            parameters.append(lease.replay)
            parameters.append(position)
            parameters.append(count)
            parameters.append(ReplayPlanner.chunkSize)
            let queued = try connection.execute(queue, parameters).integer(0, 0) ?? 0
            if queued < count {
                var rest = lease.parameters
                rest.append(count - queued)
                _ = try connection.execute(passOver, rest)
            }
            return Step(standing: .held, done: done, skipped: skipped + count - queued)
        }
    }

    /// The step met no row: somebody else decides now, or it has committed before and its reply was lost.
    private static func missed(
        _ connection: isolated PostgresConnection,
        _ lease: ReplayLease,
        from position: Int64,
        count: Int64
    ) throws(PostgresError) -> Step {
        let result = try connection.query(
            "SELECT done, skipped FROM upstream.replays WHERE \(ReplayLease.fence) AND state = 'running'",
            lease.parameters
        )
        guard result.count == 1, let done = result.integer(0, 0), done == position + count else {
            return Step(standing: try lease.standing(connection))
        }
        return Step(standing: .held, done: done, skipped: result.integer(0, 1) ?? 0)
    }

    private static let advance = PostgresStatement(
        """
        UPDATE upstream.replays SET done = done + $5, lease_until = now() + $3 * interval '1 microsecond'
        WHERE \(ReplayLease.fence) AND state = 'running' AND done = $4 AND done + $5 <= planned
        RETURNING done, skipped
        """
    )

    private static let passOver = PostgresStatement(
        "UPDATE upstream.replays SET skipped = skipped + $3 WHERE \(ReplayLease.fence)"
    )

    /// A dead letter comes back to life with its delivery.
    ///
    /// A message whose day has gone is there for as long as it has a dead letter: retention takes it with the last one, and
    /// sees the delivery in its place where one statement moves it.
    ///
    /// A delivery that waits already is the delivery: it stays as it is, and no second one joins it. A message whose
    /// body is gone is passed over: there is nothing to hand over. So is one for a handler that was removed since; its row
    /// is locked, so that a removal under way waits for this step and takes what it has queued.
    private static let queue = PostgresStatement(
        """
        WITH picked AS MATERIALIZED (
            SELECT p.replay_id, p.only_failed, p.handlers[t.handler] AS handler, t.received_at, t.message_key
            FROM upstream.replays AS p
            JOIN upstream.replay_messages AS r
                ON r.replay_id = p.replay_id AND r.chunk BETWEEN $2 / $4 AND ($2 + $3 - 1) / $4
            CROSS JOIN LATERAL unnest(r.received_at, r.message_key, r.handler)
                WITH ORDINALITY AS t (received_at, message_key, handler, number)
            WHERE p.replay_id = $1::text::uuid
                AND r.chunk::int8 * $4 + t.number - 1 >= $2 AND r.chunk::int8 * $4 + t.number - 1 < $2 + $3
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
        SELECT
            (SELECT count(*) FROM queued),
            (SELECT count(pg_notify('upstream_deliveries', '')) FROM (SELECT FROM queued LIMIT 1) AS one)
        """
    )
}
