package import Postgres

/// Reads messages page by page along the primary key.
///
/// Keyset pagination: a page costs the same however many came before it, and new rows shift none. Pages going backwards
/// never see messages newer than the first page. Pages going forwards miss what commits behind their cursor;
/// ``MessageTail`` shows that too.
package struct MessagePager: Sendable {
    package var filter: MessageFilter
    package var order: PageOrder
    package var limit: Int
    /// Ends a page with the row that takes it past this many bytes, as stored.
    ///
    /// Bounds memory whatever devices send.
    package var byteLimit = Int.max
    /// Whether ``byteLimit`` counts uncompressed instead of stored bytes.
    ///
    /// Costs decompression; without it a page of compressible text may take many times the limit.
    package var countsVerbatim = false
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

    package var statement: SQL { MessageStatements.page(self) }

    /// Reads the next page and moves past it; a page that is not full is the last.
    package mutating func next(_ connection: PostgresConnection) async throws(PostgresError) -> MessagePage {
        let result = try await connection.result(of: statement)
        let page = try MessagePage(result, limit: limit, byteLimit: byteLimit)
        if let end = page.end { cursor = end }
        return page
    }
}
