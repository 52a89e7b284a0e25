package import Postgres

/// Follows messages as they are committed; see ``TailWindow`` for how none is missed.
package struct MessageTail: Sendable {
    /// What has to be shown, and whether the follower keeps up.
    package var window: TailWindow

    private let filter: MessageFilter

    /// Starts to follow: what is committed by now counts as known.
    ///
    /// - Parameters:
    ///   - filter: Which messages.
    ///   - overlap: How late a commit may be, in microseconds.
    ///   - longInterval: How often the whole overlap is read, in microseconds.
    ///   - connection: The database.
    /// - Throws: ``PostgresError``
    package init(
        _ filter: MessageFilter,
        overlap: Int64,
        longInterval: Int64 = 5_000_000,
        _ connection: PostgresConnection
    ) async throws {
        self.filter = filter
        window = TailWindow(now: try await Self.now(connection), overlap: overlap, longInterval: longInterval)
        try await read(from: window.start, connection) { _, _ in }
    }

    /// Messages that a follower can't show, or can't be sure of.
    package enum Gap: Sendable, Equatable {
        /// What was received in this span was dropped by retention before it could be read.
        case dropped(Range<Int64>)
        /// Too much arrived to remember it all: of what was received in this span, commits that came late are missing.
        case unproven(Range<Int64>)
    }

    /// Shows what has been committed since the last poll that succeeded, in the order of arrival.
    ///
    /// - Parameters:
    ///   - connection: The database.
    ///   - show: Takes a page and the number of a row that is new.
    /// - Throws: ``PostgresError``, and what `show` throws; what was shown is not shown again by the next poll.
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

    /// The begin of the oldest day that is kept.
    private static func oldest(_ connection: PostgresConnection) async throws(PostgresError) -> Int64? {
        try await connection.run { connection throws(PostgresError) in
            try connection.query(
                """
                SELECT (extract(epoch FROM to_date(right(min(relname), 8), 'YYYYMMDD')) * 1e6)::bigint
                FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
                WHERE inhparent = 'upstream.messages'::regclass AND relname ~ '^messages_[0-9]{8}$'
                """
            ).integer(0, 0)
        }
    }

    private mutating func read(
        from floor: Int64,
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

    /// The database's time, which is what spans of time are counted back from.
    package static func now(_ connection: PostgresConnection) async throws(PostgresError) -> Int64 {
        try await connection.run { connection throws(PostgresError) in
            try connection.query("SELECT clock_timestamp()").timestamp(0, 0) ?? 0
        }
    }
}
