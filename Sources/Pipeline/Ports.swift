import UpstreamKit
package import Vocabulary

/// The way back to the connection that delivered a message.
///
/// Calls may come from any thread and must not block.
package protocol AckSink: AnyObject, Sendable {
    /// The transactions that hold these copies have committed.
    ///
    /// The sink acks those whose ``IncomingMessage/isAcked`` is true, each exactly once on its own connection, or counts
    /// them as `connection_gone`; and it takes all of them off its in-flight account.
    func settled(_ copies: SettledCopies)
}

/// What became of one delivered copy, once its transaction has committed (`upstream_messages_total{outcome}`).
package enum StoreOutcome: UInt8, CaseIterable, Sendable {
    /// New: in the ledger and in `messages`.
    ///
    /// The ledger tells a new copy by its time of arrival, so where two workers receive copies of one message within the same
    /// microsecond, each counts its own as new. One row is stored all the same.
    case stored
    /// Known, with the same content.
    case duplicate
    /// Known, with other content: in `conflicts`.
    case conflict
    /// In `quarantine`.
    case quarantined
}

/// Why a batch could not be committed.
package struct StoreError: Error, Sendable {
    /// What the failure asks for.
    package enum Kind: Sendable {
        /// The database can't commit now; whether the batch has been committed may be unknown. Wait and commit the
        /// same batch again.
        case unavailable
        /// The content of at least one row was rejected, and none of the batch's new rows is committed. Bisect.
        case refused
        /// One of our timeouts ended the attempt; whether the batch has been committed may be unknown. Commit smaller parts.
        case timedOut
        /// The database does not know what this worker's handlers have subscribed to, as after a failover or a restore. Register, and
        /// commit the same batch again.
        case unregistered
        /// The times of some copies are too far from the database's, and none of the batch's new rows is committed. Stamp them anew by
        /// what the database's clock is known to show since, and commit the same batch again.
        case misdated
    }

    /// What the failure asks for.
    package var kind: Kind
    /// The SQLSTATE, five characters, or nil where the server gave none.
    package var sqlState: String?
    /// The failure's class.
    package var failureClass: DatabaseErrorClass
    /// What to log.
    ///
    /// Holds no row content.
    package var message: String

    package init(kind: Kind, sqlState: String?, message: String, failureClass: DatabaseErrorClass) {
        self.kind = kind
        self.sqlState = sqlState
        self.message = message
        self.failureClass = failureClass
    }
}

/// The database side of the receive path.
///
/// One value is one writer with a connection of its own.
package protocol MessageWriter: Sendable {
    /// The preferred executor for ``commit(_:leasing:isRetry:)``; nil for any.
    var executor: (any TaskExecutor)? { get }

    /// Commits a batch, and returns the outcome of each copy in the batch's order.
    ///
    /// New messages' deliveries to the handlers that `offer` names are inserted under its lease; the others wait in the
    /// table, and other workers are told where it holds some for handlers that this one does not run.
    ///
    /// Idempotent: a batch whose earlier commit went through, though its reply was lost, gives the outcomes that the
    /// lost reply would have given.
    ///
    /// - Parameters:
    ///   - batch: The copies, in arrival order.
    ///   - offer: The lease for the deliveries of new messages.
    ///   - isRetry: Whether an earlier attempt may have committed: the ledger is then queried by key first, and only missing
    ///     copies are sent.
    /// - Returns: What became of each copy, once all that these outcomes rely on is as durable as the database makes it:
    ///   where it replicates synchronously, after the standbys have confirmed.
    /// - Throws: ``StoreError``
    func commit(
        _ batch: [IncomingMessage],
        leasing offer: LeaseOffer,
        isRetry: Bool
    ) async throws(StoreError) -> [StoreOutcome]
}

extension MessageWriter {
    package var executor: (any TaskExecutor)? { nil }

    /// Commits a batch whose deliveries all wait in the table.
    ///
    /// - Throws: ``StoreError``
    package func commit(
        _ batch: [IncomingMessage],
        isRetry: Bool = false
    ) async throws(StoreError) -> [StoreOutcome] {
        try await commit(batch, leasing: .none, isRetry: isRetry)
    }
}
