import Vocabulary

@testable import Handlers

extension FunctionStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let message = Message(key: Digest128(high: 0, low: 0), receivedAt: Timestamp(microseconds: 0))
        let function = SQLFunction("pg_catalog.row_to_json")
        return [
            StatementSample("exists", exists), StatementSample("complete", complete),
            StatementSample("completeRecorded", completeRecorded),
            StatementSample("isReadOnly", isReadOnly),
        ] + [function].compactMap(\.self).map { StatementSample("call", call($0, message)) }
    }
}

/// The module's catalogs.
let handlersCatalogs: [any StatementCatalog.Type] = [
    FunctionStatements.self
]
