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

    /// Shows what has been committed since the last poll, in the order of arrival.
    ///
    /// - Parameters:
    ///   - connection: The database.
    ///   - show: Takes a page and the number of a row that is new.
    /// - Throws: ``PostgresError``, and what `show` throws.
    package mutating func poll(
        _ connection: PostgresConnection,
        _ show: (MessagePage, Int) throws -> Void
    ) async throws {
        let floor = window.poll(now: try await Self.now(connection))
        try await read(from: floor, connection, show)
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

    private static func now(_ connection: PostgresConnection) async throws(PostgresError) -> Int64 {
        try await connection.run { connection throws(PostgresError) in
            try connection.query("SELECT clock_timestamp()").timestamp(0, 0) ?? 0
        }
    }
}
