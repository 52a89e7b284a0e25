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
        return try await run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try connection.run(StoreStatements.lockLoads)
                let known = try Set(commit.readLedger(connection).keys)
                var outcomes = try commit.run(connection)
                for index in batch.indices
                where outcomes[index] == .stored && known.contains(batch[index].messageKey) {
                    outcomes[index] = .duplicate
                }
                if !isDelivered {
                    // Ours alone: nobody sees them before this transaction commits.
                    let new = batch.indices.filter { outcomes[$0] == .stored }.map { batch[$0].messageKey }
                    try connection.run(StoreStatements.deleteDeliveries(of: new))
                }
                return outcomes
            }
        }
    }
}
