package import Postgres
package import Vocabulary

/// A registered handler as `handlers list` shows it.
package struct HandlerState: Sendable {
    /// The name.
    package var name: String
    /// The categories that it is subscribed to.
    package var categories: [String]
    /// When a worker that runs it was last seen.
    package var seenAt: Timestamp
    /// Whether that was within the last minutes.
    package var isClaimed: Bool
    /// Whether it is paused now.
    package var isPaused: Bool
    /// When the pause ends by itself.
    package var pausedUntil: Timestamp?
    /// Who or what paused it, and why.
    package var pausedReason: String?
    /// When a pause ends that the handler itself asked for; nil without one.
    package var heldUntil: Timestamp?
    /// What it answered then.
    package var heldReason: String?
    /// Where counts stop.
    package static let countLimit = 100_000
    /// The rows that wait, counted up to a limit; the limit itself means so many at least.
    package var depth: Int
    /// The age of the oldest; nil without one.
    package var oldestAge: Duration?
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
    /// Whether it is ordered: one message of a device at a time, in order of arrival.
    package var isByDevice: Bool
    /// When it was last heard of.
    package var seenAt: Timestamp
    /// Whether that was within the last minutes.
    package var isLive: Bool
}

/// The table `handlers`, for the commands `handlers …`.
package struct HandlerStates: Sendable {
    let connection: PostgresConnection

    /// The handlers of the database that the connection leads to.
    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// All of them, by name.
    ///
    /// - Parameter limit: Where the counts of deliveries and dead letters stop.
    /// - Throws: ``PostgresError``
    /// - Returns: Each handler with its workers.
    package func list(counted limit: Int = HandlerState.countLimit) async throws(PostgresError) -> [HandlerState] {
        let sql = HandlerStatements.list(counted: limit)
        return try await connection.run { connection throws(PostgresError) in
            let workers = try Self.workers(connection)
            return try connection.run(sql).map { row throws(PostgresError) in
                var state = try HandlerState(&row)
                state.workers = workers[state.name] ?? []
                return state
            }
        }
    }

    /// The workers that ask for each handler.
    private static func workers(
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> [String: [HandlerWorker]] {
        var workers: [String: [HandlerWorker]] = [:]
        try connection.run(HandlerStatements.workers).eachRow { row throws(PostgresError) in
            let handler = try row.next(String.self)
            let worker = HandlerWorker(
                worker: try row.next(),
                categories: try row.next(),
                isByDevice: try row.next(),
                seenAt: try row.next(),
                isLive: try row.next()
            )
            workers[handler, default: []].append(worker)
        }
        return workers
    }

    /// A pause that has begun.
    package struct Pause: Sendable, Equatable {
        /// When it ends by itself; nil where it lasts until the handler is resumed.
        package var until: Timestamp?
    }

    /// Pauses a handler in every worker until it is resumed, or for a time by the database's clock.
    ///
    /// - Parameters:
    ///   - name: The handler.
    ///   - length: How long; nil until it is resumed.
    ///   - author: Who, and why, which `handlers list` shows.
    /// - Throws: ``PostgresError``
    /// - Returns: nil where there is no such handler.
    package func pause(
        _ name: String,
        for length: Duration?,
        by author: AuditAuthor
    ) async throws(PostgresError) -> Pause? {
        try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try Self.pause(connection, name, for: length, by: author)
            }
        }
    }

    /// Resumes a handler: ends its pause, and the one that it asked for itself, and closes its circuit breakers.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: False where there is no such handler.
    package func resume(_ name: String, by author: AuditAuthor) async throws(PostgresError) -> Bool {
        try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try Self.resume(connection, name, by: author)
            }
        }
    }

    /// Pauses a handler, as ``pause(_:for:by:)`` does, inside a transaction.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: nil where there is no such handler.
    package static func pause(
        _ connection: isolated PostgresConnection,
        _ name: String,
        for length: Duration?,
        by author: AuditAuthor
    ) throws(PostgresError) -> Pause? {
        let pause = try connection.run(HandlerStatements.pause(name, for: length, reason: author.reason))
            .first { row throws(PostgresError) in Pause(until: try row.next()) }
        if pause != nil { try AuditLog.record(connection, .pauseHandler, subject(name), by: author) }
        return pause
    }

    /// Resumes a handler, as ``resume(_:by:)`` does, inside a transaction.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: False where there is no such handler.
    package static func resume(
        _ connection: isolated PostgresConnection,
        _ name: String,
        by author: AuditAuthor
    ) throws(PostgresError) -> Bool {
        let isKnown = try connection.run(HandlerStatements.resume(name)).affectedRows == 1
        if isKnown { try AuditLog.record(connection, .resumeHandler, subject(name), by: author) }
        return isKnown
    }

    /// What the audit trail calls a handler.
    static func subject(_ name: String) -> String { "handler \(name)" }
}

extension HandlerState {
    /// Reads a row of ``HandlerStatements/list(counted:)``.
    fileprivate init(_ row: inout PostgresRow) throws(PostgresError) {
        name = try row.next()
        categories = try row.next()
        isPaused = try row.next()
        let until = try row.next(Timestamp?.self)
        let reason = try row.next(String?.self)
        pausedUntil = isPaused ? until : nil
        pausedReason = isPaused ? reason : nil
        depth = try row.next()
        oldestAge = try row.next()
        deadLetters = try row.next()
        seenAt = try row.next()
        isClaimed = try row.next()
        heldUntil = try row.next()
        let answer = try row.next(String?.self)
        heldReason = heldUntil == nil ? nil : answer
    }
}
