import Postgres

@testable import Compare

extension CompareStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("historySize", historySize),
            StatementSample(
                "bareBatchSizes",
                bareBatchSizes,
                after: "CREATE TEMPORARY TABLE baseline (message_id text)"
            ),
        ]
    }
}

/// The module's catalogs.
let compareCatalogs: [any StatementCatalog.Type] = [
    CompareStatements.self
]
