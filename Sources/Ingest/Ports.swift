package import Dispatcher
package import Vocabulary

/// The way back to the connection that delivered a message; calls may come from any thread and must not block.
package protocol AckSink: AnyObject, Sendable {
    /// Settles copies whose transactions have committed.
    ///
    /// The sink acks those whose ``IncomingMessage/isAcked`` is true, each exactly once on its own connection, or
    /// counts them as `connection_gone`; and it takes all of them off its in-flight account.
    func settled(_ copies: SettledCopies)
}

/// The database side of the receive path: a writer with its own connection.
package protocol MessageWriter: Sendable {
    /// The preferred executor for ``commit(_:leasing:isRetry:)``; nil for any.
    var executor: (any TaskExecutor)? { get }

    /// Commits a batch, and returns the outcome of each copy in the batch's order.
    ///
    /// Deliveries of new messages to the handlers named by `offer` are inserted under its lease; the others wait in the
    /// table, and other workers are notified if it holds some for handlers that this one does not run.
    ///
    /// Idempotent: a batch whose earlier commit went through, though its reply was lost, gives the outcomes that the
    /// lost reply would have given.
    ///
    /// - Parameters:
    ///   - batch: The copies, in arrival order.
    ///   - offer: The lease for the deliveries of new messages.
    ///   - isRetry: Whether an earlier attempt may have committed: the ledger is then queried by key first, and only
    ///     missing copies are sent.
    /// - Returns: The outcomes, once everything they rely on is as durable as the database makes it: with synchronous
    ///   replication, after the standbys have confirmed.
    /// - Throws: ``StoreError``
    func commit(
        _ batch: [IncomingMessage],
        leasing offer: LeaseOffer,
        isRetry: Bool
    ) async throws(StoreError) -> [StoreOutcome]
}

/// How far each archive was read, in the database; one reader at a time has an archive's lease.
package protocol ArchivePoints: Sendable {
    /// Leases a sender's archive to `reader`, unless another has it.
    ///
    /// - Throws: ``StoreError``
    func claim(sender: String, archive: String, reader: String) async throws(StoreError) -> ArchiveClaim

    /// Saves the point after a page was committed, and renews the lease, or gives it back with `end`.
    ///
    /// - Returns: Whether `reader` still has the lease; if not, nothing is saved.
    /// - Throws: ``StoreError``
    func save(
        _ point: ArchivePoint,
        sender: String,
        archive: String,
        reader: String,
        end: ArchiveEnd?
    ) async throws(StoreError) -> Bool
}

package enum ArchiveClaim: Sendable, Equatable {
    /// Another reader has the lease.
    case taken
    /// The archive was never read: only what it gets from now on is wanted.
    case first
    case from(ArchivePoint)
}

extension MessageWriter {
    package var executor: (any TaskExecutor)? { nil }

    /// Commits a batch whose deliveries all wait in the table.
    package func commit(_ batch: [IncomingMessage], isRetry: Bool = false) async throws(StoreError) -> [StoreOutcome] {
        try await commit(batch, leasing: .none, isRetry: isRetry)
    }
}
