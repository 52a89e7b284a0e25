package import Postgres

/// The statement catalogs of this module, for the test that prepares every statement.
package enum MessageStoreCatalogs {
    package static var all: [any StatementCatalog.Type] {
        [
            AttemptStatements.self,
            AuditStatements.self,
            CheckStatements.self,
            ClaimStatements.self,
            ConflictReleaseStatements.self,
            DeadLetterStatements.self,
            DeliveryStatements.self,
            ErasureStatements.self,
            HandlerStatements.self,
            HealthStatements.self,
            MigrationStatements.self,
            PartitionStatements.self,
            RetentionStatements.self,
            StatisticsStatements.self,
            SenderStatements.self,
            SettleStatements.self,
            StoreStatements.self,
            WaitingStatements.self,
            WorkerStatements.self,
        ]
    }
}
