import Vocabulary

@testable import Handlers

extension FunctionStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let function = SQLFunction("pg_catalog.row_to_json")
        return [
            StatementSample("find", find), StatementSample("complete", complete),
            StatementSample("completeRecorded", completeRecorded), StatementSample("isReadOnly", isReadOnly),
        ]
            + [function].compactMap(\.self).flatMap { function in
                [
                    StatementSample("call", call(function, .message)), StatementSample("form", form(of: function)),
                ]
            }
    }
}

/// The module's catalogs.
let handlersCatalogs: [any StatementCatalog.Type] = [
    FunctionStatements.self
]
