package import Postgres
package import Vocabulary

/// A registered handler as `handlers list` shows it.
package struct HandlerState: Sendable {
    package var name: String
    /// The categories that it is subscribed to.
    package var categories: [String]
    /// When a worker that runs it was last seen.
    package var seenAt: Timestamp
    /// Whether that was within the last two minutes.
    package var isClaimed: Bool
    package var isPaused: Bool
    /// When the pause ends by itself.
    package var pausedUntil: Timestamp?
    /// Who or what paused it, and why.
    package var pausedReason: String?
    /// When the pause that it asked for ends; nil without one.
    package var heldUntil: Timestamp?
    /// Its reason for that pause.
    package var heldReason: String?
    /// The default limit of counts.
    package static let countLimit = 100_000
    /// The number of waiting rows; at the limit a lower bound.
    package var depth: Int
    /// The age of the oldest; nil if there is none.
    package var oldestAge: Duration?
    /// The number of dead letters; at the limit a lower bound.
    package var deadLetters: Int
    /// The workers registered for it, latest heartbeat first.
    package var workers: [HandlerWorker] = []
}

/// A worker registered for a handler.
package struct HandlerWorker: Sendable {
    /// The process for people: host and process id.
    package var worker: String
    package var categories: [String]
    /// Whether it is ordered: one message per device at a time, in order of arrival.
    package var isByDevice: Bool
    /// Its latest heartbeat.
    package var seenAt: Timestamp
    /// Whether that was within the last two minutes.
    package var isLive: Bool
}

package struct HandlerStates: Sendable {
    package let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// All handlers by name, with their workers.
    ///
    /// - Parameter limit: The limit of counts of deliveries and dead letters.
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

    /// A pause in force.
    package struct Pause: Sendable, Equatable {
        /// When it ends by itself; nil if it lasts until the handler is resumed.
        package var until: Timestamp?
    }

    /// Pauses a handler in every worker, for `length` by the database's clock or until it is resumed; inside a transaction.
    ///
    /// - Returns: nil if there is no such handler.
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

    /// Resumes a handler inside a transaction: ends its pause, also one that it asked for, and closes its circuit breakers.
    ///
    /// - Returns: False if there is no such handler.
    package static func resume(
        _ connection: isolated PostgresConnection,
        _ name: String,
        by author: AuditAuthor
    ) throws(PostgresError) -> Bool {
        let isKnown = try connection.run(HandlerStatements.resume(name)).affectedRows == 1
        if isKnown { try AuditLog.record(connection, .resumeHandler, subject(name), by: author) }
        return isKnown
    }

    /// The audit trail's name for a handler.
    static func subject(_ name: String) -> String { "handler \(name)" }
}

extension HandlerState {
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
