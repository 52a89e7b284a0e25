package import Postgres

/// The statement catalogs of this module, for the test that prepares every statement.
package enum CLICatalogs {
    package static var all: [any StatementCatalog.Type] { [BenchStatements.self, DevStatements.self] }
}
