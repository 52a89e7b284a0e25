package import Postgres
package import Vocabulary

/// Follows messages as they are committed; ``TailWindow`` describes how none is missed.
package struct MessageTail: Sendable {
    /// Which rows still have to be shown, and whether the follower keeps up.
    package var window: TailWindow

    private let filter: MessageFilter

    /// Starts to follow: what has committed by now counts as shown.
    ///
    /// - Parameters:
    ///   - filter: Which messages.
    ///   - overlap: How late a commit may be.
    ///   - longInterval: How often the whole overlap is read.
    ///   - connection: The database.
    /// - Throws: ``PostgresError``
    package init(
        _ filter: MessageFilter,
        overlap: Duration,
        longInterval: Duration = .seconds(5),
        _ connection: PostgresConnection
    ) async throws {
        self.filter = filter
        window = TailWindow(now: try await Self.now(connection), overlap: overlap, longInterval: longInterval)
        try await read(from: window.start, connection) { _, _ in }
    }

    /// Messages that a follower can't show, or can't be sure of.
    package enum Gap: Sendable, Equatable {
        /// Retention dropped what was received in this span before it was read.
        case dropped(Range<Timestamp>)
        /// Too many messages arrived to remember them all: late commits among those received in this span are missing.
        case unproven(Range<Timestamp>)
    }

    /// Shows what has committed since the last successful poll, in order of arrival.
    ///
    /// - Parameters:
    ///   - connection: The database.
    ///   - show: Takes a page and the number of a new row.
    /// - Throws: ``PostgresError``, and what `show` throws; the next poll does not repeat what was shown.
    /// - Returns: What is missing, if anything.
    package mutating func poll(
        _ connection: PostgresConnection,
        _ show: (MessagePage, Int) throws -> Void
    ) async throws -> Gap? {
        let now = try await Self.now(connection)
        let pause = now - window.lastSuccess
        let floor = window.poll(now: now)
        var gap = window.unproven.map(Gap.unproven)
        if pause > window.overlap {
            let oldest = try await Self.oldest(connection)
            let start = max(floor, filter.since ?? floor)
            if let oldest, oldest > start { gap = .dropped(start..<oldest) }
        }
        try await read(from: floor, connection, show)
        window.succeeded()
        return gap
    }

    /// The start of the oldest day that retention has kept; nil if there is none.
    private static func oldest(_ connection: PostgresConnection) async throws(PostgresError) -> Timestamp? {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(MessageStatements.oldestDay).value(Timestamp?.self)
        }
    }

    private mutating func read(
        from floor: Timestamp,
        _ connection: PostgresConnection,
        _ show: (MessagePage, Int) throws -> Void
    ) async throws {
        var filter = filter
        filter.since = max(floor, filter.since ?? floor)
        var pager = MessagePager(filter, .oldestFirst, limit: 2_000)
        pager.byteLimit = 8 << 20
        while true {
            let page = try await pager.next(connection)
            for row in 0..<page.count {
                guard let place = page.cursor(row), window.isNew(place) else { continue }
                try show(page, row)
            }
            if !page.isFull { return }
        }
    }

    /// The database's time, from which ages are counted back.
    package static func now(_ connection: PostgresConnection) async throws(PostgresError) -> Timestamp {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(MessageStatements.now).value()
        }
    }
}
