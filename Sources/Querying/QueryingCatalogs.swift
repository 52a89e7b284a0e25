package import Postgres

/// The statement catalogs of this module, for the test that prepares every statement.
package enum QueryingCatalogs {
    package static var all: [any StatementCatalog.Type] {
        [
            AttemptHistoryStatements.self, ConflictStatements.self, MessageStatements.self, QuarantineStatements.self,
            TokenStatements.self,
        ]
    }
}
