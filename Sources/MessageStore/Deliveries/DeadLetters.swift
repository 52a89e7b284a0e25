package import Postgres
package import UpstreamKit
import Vocabulary

/// Which dead letters a command is about; what is nil does not narrow.
package struct DeadLetterFilter: Sendable {
    /// The handler's name.
    package var handler: String?
    /// The failure's group, as `dead groups` shows it.
    package var group: String?
    /// The message's category.
    package var category: String?
    /// One message.
    package var messageKey: MessageKey?
    /// Died at or after: microseconds since 1970-01-01 UTC.
    package var since: Int64?
    /// Died before: microseconds since 1970-01-01 UTC.
    package var until: Int64?

    /// Died within so many microseconds before now, by the database's clock; see ``DeadLetters/judge(_:freezing:)``.
    package var age: Int64?
    /// Died longer ago than so many microseconds.
    package var minimumAge: Int64?

    package init() {}

    /// The condition that the parameters $1 to $6 fill; `category` is looked up only where it is asked for.
    static let condition = """
        ($1::text IS NULL OR handler = $1) AND ($2::text IS NULL OR error_group = $2)
            AND ($3::uuid IS NULL OR message_key = $3)
            AND ($4::timestamptz IS NULL OR died_at >= $4) AND ($5::timestamptz IS NULL OR died_at < $5)
            AND ($6::text IS NULL OR EXISTS (
                SELECT FROM upstream.message_of(dead_letters.message_key, dead_letters.received_at) AS m
                WHERE m.category = $6
            ))
        """

    /// The parameters $1 to $6.
    var parameters: PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(optional: handler)
        parameters.append(optional: group)
        if let key = messageKey?.digest {
            parameters.append(uuidHigh: key.high, low: key.low)
        } else {
            parameters.appendNull(.uuid)
        }
        parameters.append(optionalTime: since)
        parameters.append(optionalTime: until)
        parameters.append(optional: category)
        return parameters
    }
}

/// A delivery that was given up.
package struct DeadLetter: Sendable {
    /// The handler.
    package var handler: String
    /// The message.
    package var messageKey: MessageKey
    /// When the message was received: microseconds since 1970-01-01 UTC.
    package var receivedAt: Int64
    /// When it was given up.
    package var diedAt: Int64
    /// The attempts that were made.
    package var attempts: Int
    /// The failure's group.
    package var group: String
    /// What the last attempt failed with.
    package var error: String
    /// The message's category; nil where the message is gone.
    package var category: String?
}

/// Dead letters that failed alike.
package struct DeadLetterGroup: Sendable {
    /// The handler.
    package var handler: String
    /// The failure's group.
    package var group: String
    /// How many.
    package var count: Int
    /// When the first died: microseconds since 1970-01-01 UTC.
    package var first: Int64
    /// When the last died.
    package var last: Int64
}

/// The table `dead_letters`, for the commands `dead …`.
package struct DeadLetters: Sendable {
    private let connection: PostgresConnection

    /// The dead letters of the database that the connection leads to.
    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Turns ages into times, by the database's clock: nobody else's is asked, neither now nor at the next part.
    ///
    /// - Parameters:
    ///   - filter: What was asked for.
    ///   - freezing: Whether what dies from now on is left out.
    /// - Throws: ``PostgresError``
    /// - Returns: The filter with times.
    package func judge(
        _ filter: DeadLetterFilter,
        freezing: Bool = false
    ) async throws(PostgresError) -> DeadLetterFilter {
        guard freezing || filter.age != nil || filter.minimumAge != nil else { return filter }
        let now = try await connection.run { connection throws(PostgresError) in
            try connection.query("SELECT clock_timestamp()").timestamp(0, 0) ?? 0
        }
        var filter = filter
        if let age = filter.age { filter.since = now - age }
        if let age = filter.minimumAge { filter.until = now - age }
        if freezing, filter.until == nil { filter.until = now }
        return filter
    }

    /// The latest first.
    ///
    /// - Throws: ``PostgresError``
    package func list(_ filter: DeadLetterFilter, limit: Int) async throws(PostgresError) -> [DeadLetter] {
        try await connection.run { connection throws(PostgresError) in
            var parameters = filter.parameters
            parameters.append(Int64(limit))
            let result = try connection.query(
                """
                SELECT
                    handler, message_key, received_at, died_at, attempts, error_group, coalesce(last_error, ''),
                    (SELECT category FROM upstream.message_of(dead_letters.message_key, dead_letters.received_at))
                FROM upstream.dead_letters WHERE \(DeadLetterFilter.condition)
                ORDER BY died_at DESC, message_key LIMIT $7
                """,
                parameters
            )
            return (0..<result.count).compactMap { row in
                guard let key = result.digest(row, 1) else { return nil }
                return DeadLetter(
                    handler: result.text(row, 0) ?? "",
                    messageKey: MessageKey(key),
                    receivedAt: result.timestamp(row, 2) ?? 0,
                    diedAt: result.timestamp(row, 3) ?? 0,
                    attempts: Int(result.integer(row, 4) ?? 0),
                    group: result.text(row, 5) ?? "",
                    error: result.text(row, 6) ?? "",
                    category: result.text(row, 7)
                )
            }
        }
    }

    /// The largest first.
    ///
    /// - Throws: ``PostgresError``
    package func groups(_ filter: DeadLetterFilter) async throws(PostgresError) -> [DeadLetterGroup] {
        try await connection.run { connection throws(PostgresError) in
            let result = try connection.query(
                """
                SELECT handler, error_group, count(*), min(died_at), max(died_at)
                FROM upstream.dead_letters WHERE \(DeadLetterFilter.condition)
                GROUP BY handler, error_group ORDER BY count(*) DESC, handler, error_group
                """,
                filter.parameters
            )
            return (0..<result.count).map { row in
                DeadLetterGroup(
                    handler: result.text(row, 0) ?? "",
                    group: result.text(row, 1) ?? "",
                    count: Int(result.integer(row, 2) ?? 0),
                    first: result.timestamp(row, 3) ?? 0,
                    last: result.timestamp(row, 4) ?? 0
                )
            }
        }
    }

    /// How many the filter lets through.
    ///
    /// - Throws: ``PostgresError``
    package func count(_ filter: DeadLetterFilter) async throws(PostgresError) -> Int {
        try await connection.run { connection throws(PostgresError) in
            let sql = "SELECT count(*) FROM upstream.dead_letters WHERE \(DeadLetterFilter.condition)"
            return Int(try connection.query(sql, filter.parameters).integer(0, 0) ?? 0)
        }
    }

    /// Gives a part of them back to their handlers, with all attempts before them.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: How many; 0 once none is left.
    package func retry(_ filter: DeadLetterFilter, limit: Int = 1_000) async throws(PostgresError) -> Int {
        try await remove(filter, limit) { chosen in
            """
            WITH \(chosen), gone AS (
                DELETE FROM upstream.dead_letters WHERE ctid IN (SELECT place FROM chosen) RETURNING *
            ), back AS (
                INSERT INTO upstream.deliveries (
                    handler, message_key, received_at, next_attempt_at, last_error, replay_id, device_key
                )
                SELECT handler, message_key, received_at, now(), last_error, replay_id, device_key FROM gone
                ON CONFLICT DO NOTHING
            )
            SELECT count(*), (
                SELECT count(pg_notify('\(DeliveryStatements.channel)', '')) FROM (SELECT FROM gone LIMIT 1) AS one
            ) FROM gone
            """
        }
    }

    /// Deletes a part of them.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: How many; 0 once none is left.
    package func discard(_ filter: DeadLetterFilter, limit: Int = 1_000) async throws(PostgresError) -> Int {
        try await remove(filter, limit) { chosen in
            """
            WITH \(chosen), gone AS (
                DELETE FROM upstream.dead_letters WHERE ctid IN (SELECT place FROM chosen) RETURNING 1
            )
            SELECT count(*) FROM gone
            """
        }
    }

    private func remove(
        _ filter: DeadLetterFilter,
        _ limit: Int,
        _ sql: @Sendable (String) -> String
    ) async throws(PostgresError) -> Int {
        let chosen = """
            chosen AS MATERIALIZED (
                SELECT ctid AS place FROM upstream.dead_letters
                WHERE \(DeadLetterFilter.condition)
                LIMIT $7 FOR UPDATE SKIP LOCKED
            )
            """
        let statement = sql(chosen)
        return try await connection.run { connection throws(PostgresError) in
            var parameters = filter.parameters
            parameters.append(Int64(limit))
            return Int(try connection.query(statement, parameters).integer(0, 0) ?? 0)
        }
    }
}
