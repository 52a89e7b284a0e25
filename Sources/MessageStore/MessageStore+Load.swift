package import Pipeline
import Postgres
import UpstreamKit
package import Vocabulary

extension MessageStore {
    /// Stores messages that another database has had: the rules of ``commit(_:leasing:isRetry:)``, in one transaction.
    ///
    /// Unlike a device's copies, a file's come again with the same `received_at`; so what the ledger knows is looked up
    /// before, and one load at a time keeps that look true. Partitions for old days are made at need.
    ///
    /// - Parameters:
    ///   - batch: The messages; none of them may be bound for `quarantine`.
    ///   - isDelivered: Whether the handlers subscribed to new ones get them.
    /// - Throws: ``StoreError``
    /// - Returns: What became of each, in the batch's order.
    package func load(
        _ batch: [IncomingMessage],
        isDelivered: Bool
    ) async throws(StoreError) -> [StoreOutcome] {
        guard !batch.isEmpty else { return [] }
        let plan = BatchPlan(batch)
        let commit = BatchCommit(batch: batch, plan: plan, offer: .none, senders: senders)
        return try await run { connection throws(CommitFailure) in
            try connection.transaction { connection throws(CommitFailure) in
                try commit.load(connection, isDelivered: isDelivered)
            }
        }
    }

    /// What ``load(_:isDelivered:)`` would make of messages, by what is stored and what comes twice among them; stores nothing.
    ///
    /// - Parameter batch: The messages; none of them may be bound for `quarantine`.
    /// - Throws: ``StoreError``
    /// - Returns: What would become of each, in the batch's order.
    package func compare(_ batch: [IncomingMessage]) async throws(StoreError) -> [StoreOutcome] {
        let plan = BatchPlan(batch)
        let keys = plan.firsts.map { batch[$0].messageKey }
        let known = try await run { connection throws(CommitFailure) in
            try CommitFailure.catching { () throws(PostgresError) in
                try BatchCommit.ledger(connection.run(StoreStatements.known(keys)))
            }
        }
        var ledger = known
        for index in plan.firsts where known[batch[index].messageKey] == nil {
            ledger[batch[index].messageKey] = BatchPlan.LedgerRow(
                fingerprint: batch[index].fingerprint,
                receivedAt: Timestamp(microseconds: batch[index].receivedAt)
            )
        }
        return Self.outcomes(plan.outcomes(batch, ledger: ledger) ?? [], of: batch, known: known)
    }

    /// A file's copies have their row's own time: what was known before is no new message for that.
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
    ) throws(CommitFailure) -> [StoreOutcome] {
        try CommitFailure.catching { () throws(PostgresError) in
            _ = try connection.run(StoreStatements.lockLoads)
        }
        let known = try readLedger(connection)
        let outcomes = MessageStore.outcomes(try run(connection), of: batch, known: known)
        guard !isDelivered else { return outcomes }
        // Ours alone: nobody sees them before this transaction commits.
        let new = batch.indices.filter { outcomes[$0] == .stored }.map { batch[$0].messageKey }
        try CommitFailure.catching { () throws(PostgresError) in
            _ = try connection.run(StoreStatements.deleteDeliveries(of: new))
        }
        return outcomes
    }
}
