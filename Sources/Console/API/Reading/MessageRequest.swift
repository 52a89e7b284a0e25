import HTTPTypes
import Postgres
import Querying
import Vocabulary

/// The order of a list's pages.
enum ListOrder: String, CaseIterable {
    case newest
    case oldest
}

/// A page of messages as a request asks for it: `GET messages`, and the page of the same name.
struct MessageRequest: Sendable {
    /// The parameters that are given once at most.
    static let single = FilterParameters.single + ["limit", "order", "after", "reveal"]
    /// Those that may be repeated.
    static let repeatable = FilterParameters.repeatable

    /// Which messages.
    var filter: FilterParameters
    /// The direction.
    var order: PageOrder
    /// The most rows.
    var limit: Int
    /// Where the page before has ended.
    var cursor: MessageCursor?
    /// Whether registration tokens are asked for.
    var revealsTokens: Bool
    /// Whether the planner's estimate of all of them is wanted.
    var wantsEstimate = false

    /// Reads the parameters.
    ///
    /// - Throws: A ``Problem`` with status 400, or 403 for a clause that only the right `reveal` allows.
    init(_ parameters: QueryParameters, showsPayloads: Bool, _ principal: Principal) throws(Problem) {
        filter = try FilterParameters(parameters, showsPayloads: showsPayloads, principal)
        order = try parameters.word("order", ListOrder.self) == .oldest ? .oldestFirst : .newestFirst
        limit = try parameters.integer("limit", in: 1...1_000, or: 50)
        cursor = try parameters.cursor(MessageCursor.init)
        revealsTokens = try parameters.reveal()
    }
}

/// A page of messages.
struct MessageListing: Sendable {
    /// The rows.
    var page: MessagePage
    /// Where the next page begins; nil on the last one.
    var next: MessageCursor?
    /// How many messages the filter selects in all, as the planner expects; nil where nobody asked, or it can't tell.
    var estimate: Int64?
    /// The filter with its times.
    var filter: MessageFilter

    /// Reads a page.
    ///
    /// It takes a few MiB at most, whatever devices send: the page then ends early, and `next` goes on behind it.
    ///
    /// - Parameters:
    ///   - request: Which.
    ///   - connection: The database.
    /// - Throws: `PostgresError`, and a ``Problem`` where the filter's times contradict each other.
    /// - Returns: The page.
    static func read(_ request: MessageRequest, _ connection: PostgresConnection) async throws -> MessageListing {
        let filter = try await request.filter.judged(connection)
        var pager = MessagePager(filter, request.order, limit: request.limit, after: request.cursor)
        (pager.byteLimit, pager.countsVerbatim) = (AnswerBounds.page, true)
        let estimate = request.wantsEstimate ? try await ScanEstimate.rows(filter, connection) : nil
        let page = try await pager.next(connection)
        return MessageListing(page: page, next: page.isFull ? page.end : nil, estimate: estimate, filter: filter)
    }

    /// The page as the API gives it.
    ///
    /// - Parameters:
    ///   - tokens: Whether registration tokens are written.
    ///   - payloads: Whether what devices sent is written.
    /// - Returns: A JSON object.
    func json(tokens: Bool, payloads: Bool) -> [UInt8] {
        var lines = MessageLines(.ndjson, tokens: tokens, payloads: payloads)
        lines.append(text: #"{"items":["#)
        for row in 0..<page.count {
            if row > 0 { lines.append(text: ",") }
            lines.appendObject(of: page, row)
        }
        lines.append(text: #"],"next":"#)
        lines.append(text: next.map { "\"\($0)\"" } ?? "null")
        if let estimate { lines.append(text: #","estimate":\#(estimate)"#) }
        lines.append(text: "}")
        return lines.take()
    }
}

extension QueryParameters {
    /// What `?reveal=…` asks for.
    private enum Revealed: String, CaseIterable { case token }

    /// Whether registration tokens are asked for: `reveal=token`.
    ///
    /// - Throws: A ``Problem`` with status 400 for any other value.
    func reveal() throws(Problem) -> Bool { try word("reveal", Revealed.self) != nil }
}
