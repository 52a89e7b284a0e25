package import Postgres

/// The statement catalogs of this module, for the test that prepares every statement.
package enum ConsoleCatalogs {
    package static var all: [any StatementCatalog.Type] {
        [
            IdempotencyStatements.self,
            JobStatements.self,
            ReplayActionStatements.self,
        ]
    }
}
