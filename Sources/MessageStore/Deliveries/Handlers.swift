import Foundation
package import Postgres

/// A registered handler as `handlers list` shows it.
package struct HandlerState: Sendable {
    /// The name.
    package var name: String
    /// The categories that it is subscribed to.
    package var categories: [String]
    /// When a worker that runs it was last seen: microseconds since 1970-01-01 UTC.
    package var seenAt: Int64
    /// Whether that was within the last minutes.
    package var isClaimed: Bool
    /// Whether its deliveries may not be claimed now.
    package var isPaused: Bool
    /// When the pause ends by itself: microseconds since 1970-01-01 UTC.
    package var pausedUntil: Int64?
    /// Who or what paused it, and why.
    package var pausedReason: String?
    /// The rows that wait, counted up to a limit.
    package var depth: Int
    /// The age of the oldest, in microseconds; nil without one.
    package var oldestAge: Int64?
    /// The rows in `dead_letters`, counted up to a limit.
    package var deadLetters: Int
    /// The workers that ask for it, the latest heard of first.
    package var workers: [HandlerWorker] = []
}

/// A worker that asks for a handler's messages.
package struct HandlerWorker: Sendable {
    /// The process for people: host and process id.
    package var worker: String
    /// The categories that it asks for.
    package var categories: [String]
    /// Whether it takes each device's messages in order.
    package var isByDevice: Bool
    /// When it was last heard of: microseconds since 1970-01-01 UTC.
    package var seenAt: Int64
    /// Whether that was within the last minutes.
    package var isLive: Bool
}

/// The table `handlers`, for the commands `handlers …`.
package struct HandlerStates: Sendable {
    /// A condition on `handlers`: workers note twice a minute what they run.
    static let isClaimed = "(seen_at > now() - interval '2 minutes')"

    let connection: PostgresConnection

    /// The handlers of the database that the connection leads to.
    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// All of them, by name.
    ///
    /// - Throws: ``PostgresError``
    package func list() async throws(PostgresError) -> [HandlerState] {
        try await connection.run { connection throws(PostgresError) in
            let result = try connection.query(
                """
                SELECT
                    name,
                    coalesce((SELECT string_agg(category, ',' ORDER BY category) FROM upstream.subscriptions
                    WHERE handler = name), ''),
                    paused AND (paused_until IS NULL OR paused_until > now()), paused_until, paused_reason,
                    (SELECT count(*) FROM (
                        SELECT FROM upstream.deliveries WHERE handler = name LIMIT 100000
                    ) AS counted),
                    (SELECT (extract(epoch FROM now() - min(received_at)) * 1e6)::bigint FROM (
                        SELECT received_at FROM upstream.deliveries
                        WHERE handler = name ORDER BY next_attempt_at LIMIT 1000
                    ) AS soonest),
                    (SELECT count(*) FROM (
                        SELECT FROM upstream.dead_letters WHERE handler = name LIMIT 100000
                    ) AS counted),
                    seen_at, \(Self.isClaimed)
                FROM upstream.handlers ORDER BY name
                """
            )
            let workers = try Self.workers(connection)
            return (0..<result.count).map { row in
                let isPaused = result.bool(row, 2) ?? false
                return HandlerState(
                    name: result.text(row, 0) ?? "",
                    categories: (result.text(row, 1) ?? "").split(separator: ",").map(String.init),
                    seenAt: result.timestamp(row, 8) ?? 0,
                    isClaimed: result.bool(row, 9) ?? false,
                    isPaused: isPaused,
                    pausedUntil: isPaused ? result.timestamp(row, 3) : nil,
                    pausedReason: isPaused ? result.text(row, 4) : nil,
                    depth: Int(result.integer(row, 5) ?? 0),
                    oldestAge: result.integer(row, 6),
                    deadLetters: Int(result.integer(row, 7) ?? 0),
                    workers: workers[result.text(row, 0) ?? ""] ?? []
                )
            }
        }
    }

    /// The workers that ask for each handler.
    private static func workers(
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> [String: [HandlerWorker]] {
        let result = try connection.query(
            """
            SELECT handler, worker, array_to_json(categories)::text, by_device, heartbeat_at,
                heartbeat_at > now() - interval '2 minutes'
            FROM upstream.handler_workers ORDER BY heartbeat_at DESC, token
            """
        )
        let decoder = JSONDecoder()
        var workers: [String: [HandlerWorker]] = [:]
        for row in 0..<result.count {
            let categories = try? decoder.decode([String].self, from: Data(result.bytes(row, 2) ?? []))
            let worker = HandlerWorker(
                worker: result.text(row, 1) ?? "",
                categories: categories ?? [],
                isByDevice: result.bool(row, 3) ?? false,
                seenAt: result.timestamp(row, 4) ?? 0,
                isLive: result.bool(row, 5) ?? false
            )
            workers[result.text(row, 0) ?? "", default: []].append(worker)
        }
        return workers
    }

    /// A pause that has begun.
    package struct Pause: Sendable, Equatable {
        /// When it ends by itself: microseconds since 1970-01-01 UTC; nil where it lasts until the handler is resumed.
        package var until: Int64?
    }

    /// Pauses a handler in every worker, until it is resumed or the time is over, by the database's clock.
    ///
    /// - Parameters:
    ///   - name: The handler.
    ///   - length: How long, in microseconds; nil until it is resumed.
    ///   - reason: Why, for people.
    /// - Throws: ``PostgresError``
    /// - Returns: nil where there is no such handler.
    package func pause(_ name: String, for length: Int64?, reason: String?) async throws(PostgresError) -> Pause? {
        try await connection.run { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.append(name)
            if let length { parameters.append(length) } else { parameters.appendNull(.int8) }
            parameters.append(optional: reason)
            let result = try connection.query(
                """
                UPDATE upstream.handlers
                SET paused = true, paused_until = now() + $2 * interval '1 microsecond', paused_reason = $3, paused_at = now()
                WHERE name = $1
                RETURNING paused_until
                """,
                parameters
            )
            return result.count == 1 ? Pause(until: result.timestamp(0, 0)) : nil
        }
    }

    /// Lets a paused handler go on.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: False where there is no such handler.
    package func resume(_ name: String) async throws(PostgresError) -> Bool {
        try await connection.run { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.append(name)
            return try connection.query(
                """
                UPDATE upstream.handlers
                SET paused = false, paused_until = NULL, paused_reason = NULL, paused_at = NULL WHERE name = $1
                """,
                parameters
            ).affectedRows == 1
        }
    }
}
