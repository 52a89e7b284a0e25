package import Postgres
package import Vocabulary

package struct QuarantineRow: Sendable {
    package var id: Int64
    /// The sender whose connection delivered it.
    package var senderID: String
    /// The message id, if it has one that text can hold.
    package var messageID: String?
    package var reason: String
    package var detail: String
    /// The stanza as received; empty if it was not requested.
    package var stanza: Bytea
    package var byteCount: Int64
    package var timesSeen: Int64
    package var receivedAt: Timestamp
    package var lastSeenAt: Timestamp
    /// When somebody dismissed it; nil if nobody did, or it was seen since.
    package var dismissedAt: Timestamp?
    /// Whether the stanza is shown as received, in base64, and not as text with its tokens masked.
    package var isVerbatim: Bool

    /// The page's bytes up to and including this row.
    let bytesThrough: Int64
}

/// A query for quarantined stanzas, in pages along the id.
package struct QuarantineQuery: Sendable {
    package var id: Int64?
    package var senderID: String?
    package var reason: String?
    /// Only with this message id; no index serves it.
    package var messageID: String?
    /// First received at or after.
    package var since: Timestamp?
    /// First received before.
    package var until: Timestamp?
    /// One of ``State``; nil for those that nobody dismissed since they were last seen.
    package var state: String?
    /// The row id after which it begins.
    package var cursor: Int64?
    package var order = PageOrder.newestFirst
    package var hasStanzas = false
    package var limit = 50
    /// Ends a page with the stanza that takes it past this many bytes.
    package var byteLimit = Int.max
    /// Only what was last seen by then: what came meanwhile is not part of an action.
    package var seenBy: Timestamp?

    package init() {}

    package enum State: String, CaseIterable, Sendable { case dismissed, all }

    package func rows(_ connection: PostgresConnection) async throws(PostgresError) -> [QuarantineRow] {
        try await connection.result(of: RecordStatements.quarantine(self)).rows(QuarantineRow.init)
    }

    package func count(_ connection: PostgresConnection) async throws(PostgresError) -> Int {
        try await connection.result(of: RecordStatements.quarantined(self)).value()
    }

    /// Reads the next page and moves past it; the last one is not full.
    package mutating func next(
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> (rows: [QuarantineRow], isFull: Bool) {
        let rows = try await rows(connection)
        if let last = rows.last { cursor = last.id }
        return (rows, rows.count >= limit || (rows.last?.bytesThrough ?? 0) >= byteLimit)
    }
}

extension QuarantineQuery: CustomStringConvertible {
    /// The conditions as text, each after a comma; empty without conditions.
    package var description: String {
        [
            id.map { "\($0)" }, senderID.map { "sender \($0)" }, reason.map { "reason \($0)" },
            messageID.map { "message id '\($0)'" }, since.map { "since \($0.rfc3339)" },
            until.map { "until \($0.rfc3339)" },
        ].afterCommas
    }

    /// The conditions on rows of `quarantine`, without the place in the list.
    package var condition: SQL {
        // What comes again after it was dismissed is open again.
        let isOpen: SQL = "(dismissed_at IS NULL OR last_seen_at > dismissed_at)"
        let state: SQL? =
            switch state.flatMap(State.init) {
            case .dismissed: "NOT \(isOpen)"
            case .all: nil
            // Who asks for a message wants to know of it.
            case nil: id == nil && messageID == nil ? isOpen : nil
            }
        return .all([
            id.map { "id = \($0)" },
            senderID.map { "sender_id = \($0)" },
            reason.map { "reason = \($0)" },
            messageID.map { "message_id = \($0)" },
            since.map { "received_at >= \($0)" },
            until.map { "received_at < \($0)" },
            seenBy.map { "last_seen_at <= \($0)" },
            state,
        ])
    }
}
