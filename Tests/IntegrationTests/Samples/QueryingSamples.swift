import Postgres
import UpstreamKit
import Vocabulary

@testable import Querying

extension MessageStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let key = MessageKey(Digest128(high: 0, low: 0))
        let cursor = MessageCursor(receivedAt: Timestamp(microseconds: 0), messageKey: key)
        let filter = MessageFilter.sample
        var bounded = MessagePager(filter, .oldestFirst, limit: 1, after: cursor)
        bounded.byteLimit = 1
        var resumed = bounded
        resumed.since = TailPosition(at: cursor.receivedAt, transaction: 3)
        return [
            StatementSample("page", page(MessagePager(filter, .newestFirst, limit: 1))),
            StatementSample("page, after a cursor", page(MessagePager(filter, .newestFirst, limit: 1, after: cursor))),
            StatementSample("bounded", page(bounded)),
            StatementSample("page, since a position", page(resumed)),
            StatementSample("verbatimBytes", "SELECT \(verbatimBytes) FROM upstream.messages AS m"),
            StatementSample("places", places(filter, after: cursor, limit: 1)),
            StatementSample("at", at([cursor], in: cursor.receivedAt...cursor.receivedAt, upTo: 1)),
            StatementSample("moment", moment),
            StatementSample("end", end),
            StatementSample("oldestDay", oldestDay),
            StatementSample("selected", selected(filter, from: cursor.receivedAt)),
            StatementSample("readOnly", readOnly),
        ]
    }
}

extension RecordStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let digest = Digest128(high: 0, low: 0)
        let key = MessageKey(digest)
        var query = QuarantineQuery()
        (query.id, query.cursor) = (1, 1)
        (query.senderID, query.reason, query.messageID) = ("", "", "")
        (query.since, query.until) = (Timestamp(microseconds: 0), Timestamp(microseconds: 0))
        var stanzas = QuarantineQuery()
        (stanzas.hasStanzas, stanzas.order, stanzas.cursor) = (true, .oldestFirst, 1)
        (stanzas.byteLimit, stanzas.seenBy) = (1, Timestamp(microseconds: 0))
        let message = MessageCursor(receivedAt: Timestamp(microseconds: 0), messageKey: key)
        let cursor = ConflictCursor(message: message, fingerprint: digest)
        let conflict = ConflictQuery(filter: .sample, fingerprint: digest, after: cursor, limit: 1)
        return [
            StatementSample("kept", kept(where: "m.message_key = \(digest)")),
            StatementSample("released", released(key)),
            StatementSample("ledger", ledger(key)),
            StatementSample("keys", keys(in: digest...digest)),
            StatementSample("deliveries", deliveries(key)),
            StatementSample("deadLetters", deadLetters(key)),
            StatementSample("pending", pending([digest])),
            StatementSample("conflicts", conflicts(conflict)),
            StatementSample("quarantine", quarantine(query)),
            StatementSample("quarantine, with stanzas", quarantine(stanzas)),
            StatementSample("quarantined", quarantined(query)),
            StatementSample("isKnown", isKnown("m-1", key, digest...digest)),
            StatementSample("attempts", attempts(of: digest)),
            StatementSample("failures", failures(of: ["orders"], limit: 1)),
            StatementSample("tokens", tokens([(key, Timestamp(microseconds: 0))])),
        ]
    }
}

extension MessageFilter {
    /// A filter with every condition, for statement samples.
    static var sample: MessageFilter {
        var filter = MessageFilter()
        let key = Digest128(high: 0, low: 0)
        filter.categories = ["a", "b"]
        (filter.senderID, filter.messageID) = ("", "")
        (filter.deviceKey, filter.messageKey) = (DeviceKey(key), MessageKey(key))
        (filter.since, filter.until) = (Timestamp(microseconds: 0), Timestamp(microseconds: 0))
        let comparisons = WhereClause.Comparison.allCases.map(\.rawValue)
        let tests = comparisons.flatMap { comparison in ["\"x\"", "1", "true"].map { comparison + $0 } } + [" exists"]
        filter.clauses = tests.compactMap { try? WhereClause(parsing: "data.a" + $0) }
        return filter
    }
}

/// The module's catalogs.
let queryingCatalogs: [any StatementCatalog.Type] = [MessageStatements.self, RecordStatements.self]
