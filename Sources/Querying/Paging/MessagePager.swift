import Digests
package import Postgres
package import UpstreamKit
package import Vocabulary

/// A position in the order of messages: the primary key of `upstream.messages`.
///
/// Its text form is `2026-01-31T23:59:59.123456Z/7d1c0a52-0000-4000-8000-000000000001`.
package struct MessageCursor: Sendable, Equatable, LosslessStringConvertible {
    package var receivedAt: Timestamp
    /// Distinguishes messages of the same microsecond.
    package var messageKey: MessageKey

    package init(receivedAt: Timestamp, messageKey: MessageKey) {
        self.receivedAt = receivedAt
        self.messageKey = messageKey
    }

    package init?(_ text: String) {
        guard let slash = text.lastIndex(of: "/"), let key = MessageKey(String(text[text.index(after: slash)...])),
            let time = try? TimeExpression.moment(String(text[..<slash]))
        else { return nil }
        self.init(receivedAt: time, messageKey: key)
    }

    package var description: String { "\(receivedAt.rfc3339)/\(messageKey)" }
}

extension DeviceKey {
    /// The key of the device that holds this token: the first 16 bytes of its SHA-256.
    package init(of token: RegistrationToken) {
        self.init(Digest128(hashing: token.rawValue))
    }
}

extension MessageKey: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) { self.init(try Digest128(field)) }
}

extension DeviceKey: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) { self.init(try Digest128(field)) }
}

package enum PageOrder: Sendable {
    case newestFirst
    case oldestFirst
}

/// Reads messages page by page along the primary key.
///
/// Keyset pagination: a page costs the same however many came before it, and new rows shift none. Pages going backwards
/// never see messages newer than the first page. Pages going forwards miss what commits behind their cursor;
/// ``MessageTail`` shows that too.
package struct MessagePager: Sendable {
    package var filter: MessageFilter
    package var order: PageOrder
    package var limit: Int
    /// Ends a page with the row that takes it past this many bytes, uncompressed.
    ///
    /// Bounds memory whatever devices send.
    package var byteLimit = Int.max
    /// Restricts to what may have committed since a follower's position; nil for all.
    package var since: TailPosition?
    /// The position after which the next page begins; nil for the first page.
    package var cursor: MessageCursor?

    package init(_ filter: MessageFilter, _ order: PageOrder, limit: Int, after cursor: MessageCursor? = nil) {
        self.filter = filter
        self.order = order
        self.limit = limit
        self.cursor = cursor
    }

    /// Bounds the rows whose sizes a page looks at: after one that its bytes ended, not many more than fit.
    private var reach = Int.max

    /// How many rows the next page asks for.
    var asked: Int { min(limit, reach) }

    package var statement: SQL { MessageStatements.page(self) }

    /// Reads the next page and moves past it; a page that is not full is the last.
    package mutating func next(_ connection: PostgresConnection) async throws(PostgresError) -> MessagePage {
        let result = try await connection.result(of: statement)
        let page = try MessagePage(result, limit: asked, byteLimit: byteLimit)
        if let end = page.end { cursor = end }
        reach = Self.reach(after: page, of: asked)
        return page
    }

    /// How many rows to ask for after a page of so many.
    static func reach(after page: MessagePage, of asked: Int) -> Int {
        let isCut = page.isFull && page.count < asked
        return isCut ? max(16, 2 * page.count) : asked > .max / 2 ? .max : 2 * asked
    }
}
