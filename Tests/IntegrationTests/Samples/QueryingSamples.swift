import Postgres
import UpstreamKit
import Vocabulary

@testable import Querying

extension AttemptHistoryStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [StatementSample("history", history(of: Digest128(high: 0, low: 0)))]
    }
}

extension ConflictStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let fingerprint = Digest128(high: 0, low: 0)
        let message = MessageCursor(receivedAt: Timestamp(microseconds: 0), messageKey: MessageKey(fingerprint))
        let cursor = ConflictCursor(message: message, fingerprint: fingerprint)
        let query = ConflictQuery(filter: .sample, fingerprint: fingerprint, after: cursor, limit: 1)
        var bounded = query
        bounded.byteLimit = 1
        return [StatementSample("page", page(query)), StatementSample("page, with a byte limit", page(bounded))]
    }
}

extension MessageStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let key = MessageKey(Digest128(high: 0, low: 0))
        let cursor = MessageCursor(receivedAt: Timestamp(microseconds: 0), messageKey: key)
        let filter = MessageFilter.sample
        var bounded = MessagePager(filter, .oldestFirst, limit: 1, after: cursor)
        bounded.byteLimit = 1
        var resumed = bounded
        resumed.countsVerbatim = true
        resumed.since = TailPosition(at: cursor.receivedAt, transaction: 3)
        return [
            StatementSample("page", page(MessagePager(filter, .newestFirst, limit: 1))),
            StatementSample("page, after a cursor", page(MessagePager(filter, .newestFirst, limit: 1, after: cursor))),
            StatementSample("page, with a byte limit", page(bounded)),
            StatementSample("page, since a position", page(resumed)),
            StatementSample("storedBytes", "SELECT \(storedBytes) FROM upstream.messages AS m"),
            StatementSample("verbatimBytes", "SELECT \(verbatimBytes) FROM upstream.messages AS m"),
            StatementSample("places", places(filter, after: cursor, limit: 1)),
            StatementSample("at", at([cursor], in: cursor.receivedAt...cursor.receivedAt)),
            StatementSample("moment", moment),
            StatementSample("kept", kept(where: "m.message_key = \(key.digest)")),
            StatementSample("released", released(key)),
            StatementSample("ledger", ledger(key)),
            StatementSample("keys", keys(in: key.digest...key.digest)),
            StatementSample("deliveries", deliveries(key)),
            StatementSample("deadLetters", deadLetters(key)),
            StatementSample("end", end),
            StatementSample("oldestDay", oldestDay),
            StatementSample("selected", selected(filter, from: cursor.receivedAt)),
            StatementSample("readOnly", readOnly),
        ]
    }
}

extension QuarantineStatements: StatementCatalog {
    static var samples: [StatementSample] {
        var query = QuarantineQuery()
        (query.id, query.cursor) = (1, 1)
        (query.senderID, query.reason, query.messageID) = ("", "", "")
        (query.since, query.until) = (Timestamp(microseconds: 0), Timestamp(microseconds: 0))
        var stanzas = QuarantineQuery()
        (stanzas.hasStanzas, stanzas.order, stanzas.cursor) = (true, .oldestFirst, 1)
        return [StatementSample("page", page(query)), StatementSample("page, with stanzas", page(stanzas))]
    }
}

extension TokenStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [StatementSample("tokens", tokens([(MessageKey(Digest128(high: 0, low: 0)), Timestamp(microseconds: 0))]))]
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
        filter.clauses = WhereClause.Comparison.allCases.flatMap { comparison in
            [WhereClause.Operand.string("x"), .number("1"), .word("true")].map {
                WhereClause(path: ["a"], test: .compares(comparison, $0))
            }
        }
        filter.clauses.append(WhereClause(path: ["a"], test: .exists))
        return filter
    }
}

/// The module's catalogs.
let queryingCatalogs: [any StatementCatalog.Type] = [
    AttemptHistoryStatements.self,
    ConflictStatements.self,
    MessageStatements.self,
    QuarantineStatements.self,
    TokenStatements.self,
]
