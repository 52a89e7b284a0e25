package import Postgres
package import Vocabulary

/// A follower's progress: everything committed by then, and received within the overlap, was shown.
///
/// Its text form is two whole numbers joined by a hyphen, opaque to clients.
package struct TailPosition: Sendable, Equatable, CustomStringConvertible {
    package var at: Timestamp
    /// The oldest open transaction: what it and later ones inserted may not have been shown.
    package var transaction: Int64
    /// How late after its receipt a message may commit and still be found.
    package var overlap = Duration.seconds(60)

    package init(at: Timestamp, transaction: Int64) {
        (self.at, self.transaction) = (at, transaction)
    }

    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        // Too few digits to overflow, also when an earlier time is computed from it.
        guard parts.count == 2, parts.allSatisfy(Self.isNumber), let time = Int64(parts[0]),
            let transaction = Int64(parts[1]), time < Self.latest
        else { return nil }
        self.init(at: Timestamp(microseconds: time), transaction: transaction)
    }

    package var description: String { "\(at.microseconds)-\(transaction)" }

    /// The end of the year 9999, the last with a text form.
    private static let latest: Int64 = 253_402_300_800_000_000

    private static func isNumber(_ text: Substring) -> Bool {
        (1...18).contains(text.utf8.count)
            && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
}

/// Follows messages as they are committed; ``TailWindow`` describes how none is missed.
package struct MessageTail: Sendable {
    /// Which rows still have to be shown, and whether the follower keeps up.
    package var window: TailWindow

    /// Where another follower can resume: everything up to here was shown, and a little after it.
    package private(set) var position: TailPosition

    private let filter: MessageFilter

    /// Starts to follow; what has committed by now counts as shown.
    ///
    /// `overlap` is how late a commit may be; every `longInterval` the whole overlap is read.
    package init(
        _ filter: MessageFilter,
        overlap: Duration,
        longInterval: Duration = .seconds(5),
        _ connection: PostgresConnection
    ) async throws {
        self.filter = filter
        position = try await Self.moment(connection)
        position.overlap = overlap
        window = TailWindow(now: position.at, overlap: overlap, longInterval: longInterval)
        try await eachNewPlace(from: window.start, connection) { _ in }
    }

    /// Counts a row as shown that was read by other means since the start.
    package mutating func pass(_ place: MessageCursor) { _ = window.isNew(place) }

    /// Takes a page and the number of a row of it.
    package typealias Show = (MessagePage, Int) throws -> Void

    /// Messages that a follower missed, or may have missed.
    package enum Gap: Sendable, Equatable {
        /// Retention dropped what was received in this span before it was read.
        case dropped(Range<Timestamp>)
        /// Too many messages arrived to remember: late commits among those received in this span may be missing.
        case unproven(Range<Timestamp>)
    }

    /// Shows what has committed since the last successful poll, in order of arrival.
    ///
    /// Calls `show` with a page and the number of each new row; the next poll does not repeat what was shown.
    ///
    /// - Throws: ``PostgresError``, and what `show` throws.
    /// - Returns: What is missing, if anything.
    package mutating func poll(_ connection: PostgresConnection, _ show: Show) async throws -> Gap? {
        let moment = try await Self.moment(connection)
        let now = moment.at
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
        if window.lastLongSuccess == now { (position.at, position.transaction) = (now, moment.transaction) }
        return gap
    }

    /// The start of the oldest day still kept; nil if there is none.
    package static func oldest(_ connection: PostgresConnection) async throws(PostgresError) -> Timestamp? {
        try await connection.result(of: MessageStatements.oldestDay).value(Timestamp?.self)
    }

    /// Shows the new rows from a time on.
    ///
    /// Most rows of a poll were shown before, so positions are read first, and bodies only of new rows.
    private mutating func read(from floor: Timestamp, _ connection: PostgresConnection, _ show: Show) async throws {
        var waiting: [MessageCursor] = []
        var shown = 0
        do {
            try await eachNewPlace(from: floor, connection) { places in
                (waiting, shown) = (places, 0)
                try await Self.showBodies(at: places, &shown, connection, show)
            }
        } catch {
            for place in waiting.dropFirst(shown) { window.takeBack(place) }
            throw error
        }
    }

    /// Shows the messages at some positions, oldest first, some megabytes at a time; counts the positions done.
    private static func showBodies(
        at places: [MessageCursor],
        _ shown: inout Int,
        _ connection: PostgresConnection,
        _ show: Show
    ) async throws {
        var reach = pageRows
        while shown < places.count {
            let some = Array(places[shown...].prefix(min(reach, pageRows)))
            let (end, times) = (shown + some.count, some[0].receivedAt...some[some.count - 1].receivedAt)
            let found = try await connection.result(of: MessageStatements.at(some, in: times, upTo: pageBytes))
            let page = try MessagePage(found, limit: .max, byteLimit: pageBytes)
            for row in 0..<page.count {
                try show(page, row)
                // Same order; a row deleted in the meantime is skipped.
                while shown < end, places[shown] != page[row]?.cursor { shown += 1 }
                shown += 1
            }
            if !page.isFull { shown = end }
            reach = MessagePager.reach(after: page, of: some.count)
        }
    }

    /// Shows the latest messages of a filter, oldest first, some megabytes at a time; returns their positions.
    package static func showLatest(
        _ filter: MessageFilter,
        limit: Int,
        _ connection: PostgresConnection,
        _ show: Show
    ) async throws -> [MessageCursor] {
        var pager = MessagePager(filter, .newestFirst, limit: limit)
        pager.byteLimit = pageBytes
        var page = try await pager.next(connection)
        var places = (0..<page.count).compactMap { page[$0]?.cursor }
        guard page.isFull, places.count < limit else {
            for row in (0..<page.count).reversed() { try show(page, row) }
            return places
        }
        // Their bodies may not fit into memory, and the oldest come first.
        while page.isFull, places.count < limit {
            pager.limit = limit - places.count
            page = try await pager.next(connection)
            places += (0..<page.count).compactMap { page[$0]?.cursor }
        }
        var shown = 0
        try await showBodies(at: places.reversed(), &shown, connection, show)
        return places
    }

    /// Passes on the positions of new rows from a time on, in order, some thousands at a time.
    private mutating func eachNewPlace(
        from floor: Timestamp,
        _ connection: PostgresConnection,
        _ take: ([MessageCursor]) async throws -> Void
    ) async throws {
        var filter = filter
        filter.since = max(floor, filter.since ?? floor)
        var cursor: MessageCursor?
        while true {
            let sql = MessageStatements.places(filter, after: cursor, limit: Self.placeLimit)
            let found = try await connection.result(of: sql).rows(MessageCursor.init(receivedAt:messageKey:))
            var places: [MessageCursor] = []
            for place in found where window.isNew(place) { places.append(place) }
            if !places.isEmpty { try await take(places) }
            cursor = found.last
            if found.count < Self.placeLimit { return }
        }
    }

    private static let placeLimit = 10_000
    /// The most rows, and about the most bytes, of bodies read at once.
    private static let (pageRows, pageBytes) = (1_000, 4 << 20)

    /// The starting position of a new follower.
    package static func moment(_ connection: PostgresConnection) async throws(PostgresError) -> TailPosition {
        try await connection.result(of: MessageStatements.moment).onlyRow(TailPosition.init(at:transaction:))
    }
}
