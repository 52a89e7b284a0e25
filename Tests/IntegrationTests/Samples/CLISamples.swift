@testable import CLI

extension BenchStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("waiting", waiting), StatementSample("deliveriesSize", deliveriesSize),
            StatementSample("batchSizes", batchSizes),
        ]
    }
}

extension DevStatements: StatementCatalog {
    static var samples: [StatementSample] { [StatementSample("stored", stored(idPattern: "%"))] }
}

/// The module's catalogs.
let cliCatalogs: [any StatementCatalog.Type] = [
    BenchStatements.self,
    DevStatements.self,
]
