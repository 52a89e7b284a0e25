package import Postgres
package import UpstreamKit
package import Vocabulary

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
    /// Died at or after.
    package var since: Timestamp?
    /// Died before.
    package var until: Timestamp?

    /// Died within this time before now, by the database's clock; see ``DeadLetters/judge(_:freezing:)``.
    package var age: Duration?
    /// Died longer ago than this.
    package var minimumAge: Duration?

    package init() {}
}

/// A delivery that was given up.
package struct DeadLetter: Sendable {
    /// The handler.
    package var handler: String
    /// The message.
    package var messageKey: MessageKey
    /// When the message was received.
    package var receivedAt: Timestamp
    /// When it was given up.
    package var diedAt: Timestamp
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
    /// When the first died.
    package var first: Timestamp
    /// When the last died.
    package var last: Timestamp
}

/// The table `dead_letters`, for the commands `dead …`.
package struct DeadLetters: Sendable {
    private let connection: PostgresConnection

    /// The dead letters of the database that the connection leads to.
    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Turns ages into times by the database's clock, once for all batches that follow.
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
            try connection.run(DeadLetterStatements.now).value(Timestamp.self)
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
            try connection.run(DeadLetterStatements.list(filter, limit: limit)).map { row throws(PostgresError) in
                DeadLetter(
                    handler: try row.next(),
                    messageKey: MessageKey(try row.next()),
                    receivedAt: try row.next(),
                    diedAt: try row.next(),
                    attempts: try row.next(),
                    group: try row.next(),
                    error: try row.next(),
                    category: try row.next()
                )
            }
        }
    }

    /// The largest first.
    ///
    /// - Throws: ``PostgresError``
    package func groups(_ filter: DeadLetterFilter) async throws(PostgresError) -> [DeadLetterGroup] {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(DeadLetterStatements.groups(filter)).map { row throws(PostgresError) in
                DeadLetterGroup(
                    handler: try row.next(),
                    group: try row.next(),
                    count: try row.next(),
                    first: try row.next(),
                    last: try row.next()
                )
            }
        }
    }

    /// How many the filter lets through.
    ///
    /// - Throws: ``PostgresError``
    package func count(_ filter: DeadLetterFilter) async throws(PostgresError) -> Int {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(DeadLetterStatements.count(filter)).value()
        }
    }

    /// Queues one batch of them again, with all attempts before them.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: How many; 0 once none is left.
    package func retry(_ filter: DeadLetterFilter, limit: Int = 1_000) async throws(PostgresError) -> Int {
        try await remove(DeadLetterStatements.retry(filter, limit: limit))
    }

    /// Deletes one batch of them.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: How many; 0 once none is left.
    package func discard(_ filter: DeadLetterFilter, limit: Int = 1_000) async throws(PostgresError) -> Int {
        try await remove(DeadLetterStatements.discard(filter, limit: limit))
    }

    private func remove(_ statement: SQL) async throws(PostgresError) -> Int {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(statement).only { row throws(PostgresError) in try row.value("count") }
        }
    }
}
