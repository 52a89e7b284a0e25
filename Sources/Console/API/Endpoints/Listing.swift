import Postgres
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// A list of a resource, which the API and a page go through as a filter narrows it.
struct Listing<Filter: Filtered, Row: ShownResource, Cursor: LosslessStringConvertible & Sendable>: Sendable {
    struct Wanted: Sendable {
        let services: ConsoleServices
        let connection: PostgresConnection
        let filter: Filter
        /// Where it begins; nil for the first page.
        let after: Cursor?
        let limit: Int

        init(
            _ services: ConsoleServices,
            _ connection: PostgresConnection,
            _ filter: Filter,
            _ after: Cursor?,
            _ limit: Int
        ) {
            (self.services, self.connection, self.filter) = (services, connection, filter)
            (self.after, self.limit) = (after, limit)
        }

        var sight: Sight { services.sight }
    }

    /// Some of its rows, as a reader may see them.
    struct Page: Sendable {
        var rows: [Row] = []
        /// Where the next page begins; nil behind the last.
        var next: String?
        /// How far back a search came whose time was over before the page was full; nil for a page that was read to its end.
        var searchedTo: Timestamp?
    }

    /// Its page; the API's path is the same unless the endpoint has another.
    let address: PageAddress
    /// The most rows of a page.
    let most: Int
    var use = ReadShares.Use.search
    let read: @Sendable (Wanted) async throws -> Page
}

/// A place in a list along the rows' ids: a whole number above zero.
struct RowPlace: LosslessStringConvertible, Sendable {
    let id: Int64

    init?(_ text: String) {
        guard text.utf8.count < 20, let id = Int64(text), id > 0 else { return nil }
        self.id = id
    }

    var description: String { "\(id)" }
}

extension Listing.Page {
    /// Rows of which there may be more where the limit was reached.
    init(_ rows: [Row], _ limit: Int, _ cursor: (Row) -> some CustomStringConvertible) {
        self.init(rows: rows, next: rows.count < limit ? nil : rows.last.map { "\(cursor($0))" })
    }
}

extension Endpoint {
    static func list<Filter, Row, Cursor>(
        _ operation: StaticString,
        _ listing: Listing<Filter, Row, Cursor>,
        at path: String? = nil,
        _ summary: StaticString,
        right: ConsoleRight = .read
    ) -> Endpoint {
        let (limit, after) = (Parameter.limit(listing.most), Parameter.after(Cursor.init))
        let path = path ?? String(listing.address.text.dropFirst())
        return .get(operation, path, right: right) { request in
            let (asked, services) = (try request.filter(Filter.self), request.services)
            let (most, cursor) = (try request[limit], try request[after])
            let page = try await services.reader.withConnection(listing.use) { connection in
                try await listing.read(.init(services, connection, asked.judged(connection), cursor, most))
            }
            return .page(page.rows, next: page.next)
        }
        .about(summary, .page(of: Row.self)).takes(Filter.parameters + [limit, after])
    }
}

/// What a handler may have said about a message.
protocol HandlersWords: ShownResource {
    var messageKey: MessageKey { get }
    var receivedAt: Timestamp { get }
    var hasWords: Bool { get }
}

extension Array where Element: HandlersWords {
    /// The rows as a reader may see them: without their messages' tokens.
    func shown(to sight: Sight, _ connection: PostgresConnection) async throws(PostgresError) -> [Element] {
        let said = sight.payloads ? filter(\.hasWords) : []
        let tokens = try await MessageLookup(connection).tokens(of: said.map { ($0.messageKey, $0.receivedAt) })
        return map { $0.shown(to: sight, knowing: tokens[$0.messageKey] ?? []) }
    }
}
