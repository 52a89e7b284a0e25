import HTTPTypes
import Postgres
import Querying
import Vocabulary

enum ListOrder: String, CaseIterable {
    case newest
    case oldest
}

struct MessageRequest: Sendable {
    static let single = FilterParameters.single + ["limit", "order", "after", "reveal"]
    static let repeatable = FilterParameters.repeatable

    var filter: FilterParameters
    var order: PageOrder
    var limit: Int
    /// The cursor of the page before.
    var cursor: MessageCursor?
    var revealsTokens: Bool
    /// Whether the planner's estimate of the total is requested.
    var wantsEstimate = false

    /// Reads the parameters.
    ///
    /// - Throws: A ``Problem`` with status 400, or 403 for a clause that takes the right `reveal`.
    init(_ parameters: QueryParameters, showsPayloads: Bool, _ principal: Principal) throws(Problem) {
        filter = try FilterParameters(parameters, showsPayloads: showsPayloads, principal)
        order = try parameters.word("order", ListOrder.self) == .oldest ? .oldestFirst : .newestFirst
        limit = try parameters.integer("limit", in: 1...1_000, or: 50)
        cursor = try parameters.cursor(MessageCursor.init)
        revealsTokens = try parameters.reveal()
    }
}

struct MessageListing: Sendable {
    var page: MessagePage
    /// The cursor of the next page; nil on the last one.
    var next: MessageCursor?
    /// The planner's estimate of the total; nil if not requested or unknown.
    var estimate: Int64?
    var filter: MessageFilter

    /// Reads a page of a few MiB at most; one that is cut short has a `next`.
    ///
    /// - Parameters:
    ///   - request: The page.
    ///   - connection: The database.
    /// - Throws: `PostgresError`, and a ``Problem`` if the filter's times contradict each other.
    /// - Returns: The page.
    static func read(_ request: MessageRequest, _ connection: PostgresConnection) async throws -> MessageListing {
        let filter = try await request.filter.judged(connection)
        var pager = MessagePager(filter, request.order, limit: request.limit, after: request.cursor)
        (pager.byteLimit, pager.countsVerbatim) = (AnswerBounds.page, true)
        let estimate = request.wantsEstimate ? try await ScanEstimate.rows(filter, connection) : nil
        let page = try await pager.next(connection)
        return MessageListing(page: page, next: page.isFull ? page.end : nil, estimate: estimate, filter: filter)
    }

    /// The page in the API's form.
    ///
    /// - Parameters:
    ///   - tokens: Whether to include registration tokens.
    ///   - payloads: Whether to include payloads.
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
    private enum Revealed: String, CaseIterable { case token }

    func reveal() throws(Problem) -> Bool { try word("reveal", Revealed.self) != nil }
}
