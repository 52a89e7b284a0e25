import MessageStore
import Postgres
import Querying
import Resources

/// A list of a resource, which the API and a page go through as a filter narrows it.
struct Listing<Filter: Filtered, Row: ShownResource, Cursor: Sendable>: Sendable {
    /// Some of its rows, as a reader may see them.
    struct Page: Sendable {
        var rows: [Row] = []
        /// Where the next page begins; nil behind the last.
        var next: String?
    }

    typealias Read = @Sendable (ConsoleServices, PostgresConnection, Filter, Cursor?, Int) async throws -> Page

    /// Its path in the API.
    let path: String
    /// The address of its page.
    let address: PageAddress
    /// The most rows of a page.
    let most: Int
    let use: ReadShares.Use
    let cursor: @Sendable (String) -> Cursor?
    let read: Read

    init(
        _ address: PageAddress,
        most: Int,
        use: ReadShares.Use = .search,
        _ cursor: @escaping @Sendable (String) -> Cursor?,
        _ read: @escaping Read
    ) {
        (path, self.address, self.most) = (String(address.text.dropFirst()), address, most)
        (self.use, self.cursor, self.read) = (use, cursor, read)
    }
}

extension Listing.Page {
    /// Rows of which there may be more where the limit was reached.
    init(_ rows: [Row], _ limit: Int, _ cursor: (Row) -> some CustomStringConvertible) {
        self.init(rows: rows, next: rows.count < limit ? nil : rows.last.map { "\(cursor($0))" })
    }
}

extension Endpoint {
    /// A list, page by page.
    static func list<Filter, Row, Cursor>(
        _ operation: StaticString,
        _ listing: Listing<Filter, Row, Cursor>,
        _ summary: StaticString,
        right: ConsoleRight = .read
    ) -> Endpoint {
        let (limit, after) = (Parameter.limit(listing.most), Parameter.after(listing.cursor))
        let parameters = Filter.parameters + [limit, after]
        return .get(operation, listing.path, summary, .page(of: Row.schema), parameters, right: right) { request in
            let asked = try request.filter(Filter.self)
            let (most, cursor) = (try request[limit], try request[after])
            let page = try await request.services.reader.withConnection(listing.use) { connection in
                try await listing.read(request.services, connection, asked.judged(connection), cursor, most)
            }
            return .page(page.rows, next: page.next)
        }
    }
}

/// The lists.
enum Lists {
    static let dead = Listing<DeadLetterFilter, DeadLetter, DeadLetterCursor>("/dead", most: 200, DeadLetterCursor.init)
    { services, connection, filter, after, limit in
        let rows = try await DeadLetters(connection).list(filter, after: after, limit: limit)
        return .init(try await rows.shown(to: services.sight, connection), limit) { $0.cursor }
    }

    static let deliveries = Listing<WaitingFilter, WaitingDelivery, WaitingCursor>(
        "/deliveries",
        most: 200,
        WaitingCursor.init
    ) { services, connection, filter, after, limit in
        let rows = try await WaitingDeliveries(connection).list(filter, after: after, limit: limit)
        return .init(try await rows.shown(to: services.sight, connection), limit) { $0.cursor }
    }

    static let quarantine = Listing<QuarantineQuery, QuarantineRow, Int64>("/quarantine", most: 1_000, rowID) {
        services,
        connection,
        filter,
        after,
        limit in
        var query = filter
        (query.limit, query.cursor) = (limit, after)
        return .init(try await query.rows(connection).map { $0.shown(to: services.sight) }, limit) { $0.id }
    }

    static let conflicts = Listing<MessageFilter, ConflictRow, ConflictCursor>(
        "/conflicts",
        most: 1_000,
        ConflictCursor.init
    ) { services, connection, filter, after, limit in
        var after = after
        if let name = after?.fingerprint { after?.fingerprint = services.aliases.fingerprint(of: name) }
        var query = ConflictQuery(filter: filter, after: after, limit: limit)
        query.byteLimit = AnswerBounds.page
        let found = try await query.page(connection)
        let rows = found.rows.map { services.aliases.named($0).shown(to: services.sight) }
        return .init(rows: rows, next: found.isFull ? rows.last?.namedCursor.description : nil)
    }

    static let audit = Listing<AuditFilter, AuditEntry, Int64>("/audit", most: 500, use: .look, rowID) {
        services,
        connection,
        filter,
        after,
        limit in
        var filter = filter
        filter.before = after
        let entries = try await connection.run { [filter] connection throws(PostgresError) in
            try AuditLog.page(connection, filter, limit: limit + 1)
        }
        let rows = entries.prefix(limit).map { $0.shown(to: services.sight) }
        return .init(rows: rows, next: entries.count > limit ? rows.last.map { "\($0.id)" } : nil)
    }

    /// The latest messages first, for the page: the API's list is made without a row in memory.
    static let messages = Listing<MessageFilter, StoredMessage, MessageCursor>(
        "/messages",
        most: 1_000,
        MessageCursor.init
    ) { services, connection, filter, after, limit in
        var pager = MessagePager(filter, .newestFirst, limit: limit, after: after)
        (pager.byteLimit, pager.countsVerbatim) = (AnswerBounds.page, true)
        let page = try await pager.next(connection)
        let rows = try page.messages.map { $0.shown(to: services.sight) }
        return .init(rows: rows, next: page.isFull ? rows.last?.cursor.description : nil)
    }

    private static let rowID: @Sendable (String) -> Int64? = { text in
        text.utf8.count < 20 ? Int64(text).flatMap { $0 > 0 ? $0 : nil } : nil
    }
}
