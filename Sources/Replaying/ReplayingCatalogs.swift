package import Postgres

/// The statement catalogs of this module, for the test that prepares every statement.
package enum ReplayingCatalogs {
    package static var all: [any StatementCatalog.Type] {
        [
            ReplayStatements.self,
            EarlierStatements.self,
            PlanStatements.self,
            LeaseStatements.self,
            FeedStatements.self,
            SelectionStatements.self,
        ]
    }
}
