/// Why a batch could not be committed.
package struct StoreError: Error, Sendable {
    /// The action that the failure asks for.
    package enum Kind: Sendable {
        /// The database can't commit now, or the outcome is unknown. Wait and commit the same batch again.
        case unavailable
        /// The content of at least one row was rejected, and none of the batch's new rows is committed. Bisect.
        case refused
        /// One of our timeouts ended the attempt; the outcome may be unknown. Commit smaller parts.
        case timedOut
        /// The database does not know the subscriptions of this worker's handlers, as after a failover or a restore.
        /// Register, and commit the same batch again.
        case unregistered
        /// The times of some copies are too far from the database's, and none of the batch's new rows is committed.
        /// Stamp them anew by the database's clock, and commit the same batch again.
        case misdated
    }

    package var kind: Kind
    /// The SQLSTATE, five characters; nil if the server gave none.
    package var sqlState: String?
    package var failureClass: DatabaseErrorClass
    /// The text for the log, without row content.
    package var message: String

    package init(kind: Kind, sqlState: String?, message: String, failureClass: DatabaseErrorClass) {
        self.kind = kind
        self.sqlState = sqlState
        self.message = message
        self.failureClass = failureClass
    }
}
