package import Postgres

/// The statement catalogs of this module, for the test that prepares every statement.
package enum QueryingCatalogs {
    /// Each of them.
    package static var all: [any StatementCatalog.Type] {
        [MessageStatements.self, ConflictStatements.self, QuarantineStatements.self]
    }
}
