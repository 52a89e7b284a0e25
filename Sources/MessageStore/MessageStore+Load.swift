import Dispatcher
import Postgres
package import Vocabulary

extension MessageStore {
    /// Stores messages from another database, by the rules of ``commit(_:leasing:isRetry:)``, in one transaction.
    ///
    /// Unlike a device's copies, a file's have the same `received_at` each time; so known ids are looked up first, and
    /// loads are serialized to keep that result valid. Partitions for old days are created as needed. No message may be
    /// bound for `quarantine`; `isDelivered` says whether subscribed handlers get new ones.
    ///
    /// - Returns: Each message's outcome, in the batch's order.
    package func load(
        _ batch: [IncomingMessage],
        isDelivered: Bool
    ) async throws(StoreError) -> [StoreOutcome] {
        guard !batch.isEmpty else { return [] }
        let plan = BatchPlan(batch)
        let commit = BatchCommit(batch: batch, plan: plan, offer: .none, senders: senders)
        return try await run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try commit.load(connection, isDelivered: isDelivered)
            }
        }
    }

    /// The outcomes that ``load(_:isDelivered:)`` would have, including repetitions within the batch; stores nothing.
    ///
    /// No message may be bound for `quarantine`.
    package func compare(_ batch: [IncomingMessage]) async throws(StoreError) -> [StoreOutcome] {
        let plan = BatchPlan(batch)
        let keys = plan.firsts.map { batch[$0].messageKey }
        let known = try await run { connection throws(PostgresError) in
            try BatchCommit.ledger(connection.run(StoreStatements.known(keys)))
        }
        var ledger = known
        for index in plan.firsts where known[batch[index].messageKey] == nil {
            ledger[batch[index].messageKey] = BatchPlan.LedgerRow(batch[index])
        }
        return Self.outcomes(plan.outcomes(batch, ledger: ledger) ?? [], of: batch, known: known)
    }

    /// Corrects outcomes: a file's copy has its row's own time, so what was known before is a duplicate.
    fileprivate static func outcomes(
        _ outcomes: [StoreOutcome],
        of batch: [IncomingMessage],
        known: [Digest128: BatchPlan.LedgerRow]
    ) -> [StoreOutcome] {
        zip(outcomes, batch).map { outcome, message in
            outcome == .stored && known[message.messageKey] != nil ? .duplicate : outcome
        }
    }
}

extension BatchCommit {
    /// The statements of a load, in its transaction.
    fileprivate func load(
        _ connection: isolated PostgresConnection,
        isDelivered: Bool
    ) throws(PostgresError) -> [StoreOutcome] {
        try connection.run(StoreStatements.lockLoads)
        let known = try readLedger(connection)
        let outcomes = MessageStore.outcomes(try run(connection), of: batch, known: known)
        guard !isDelivered else { return outcomes }
        // Only ours: nobody sees them before this transaction commits.
        let new = batch.indices.filter { outcomes[$0] == .stored }.map { batch[$0].messageKey }
        try connection.run(StoreStatements.deleteDeliveries(of: new))
        return outcomes
    }
}
