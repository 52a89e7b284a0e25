package import Postgres

/// The statement catalogs of this module, for the test that prepares every statement.
package enum DiagnosisCatalogs {
    package static var all: [any StatementCatalog.Type] { [AuditCheckStatements.self, DoctorStatements.self] }
}
