/// Why the database or the connection to it failed: the label `class` of `upstream_database_errors_total`.
///
/// The last cases are our own, without an SQLSTATE.
package enum DatabaseErrorClass: String, CaseIterable, Hashable, Sendable {
    /// No connection, or it broke (08, or no SQLSTATE at all).
    case connection
    /// The server refused the role, the password or the database name (28, 3D).
    case authentication
    /// The server is out of disk, memory or connections (53).
    case resources
    /// Shutdown, start-up, recovery, or a terminated session (57 except a cancelled statement).
    case intervention
    /// The server cancelled a statement, or ended a transaction at its time limit (57014, 25P03).
    case timeout
    /// An I/O error or a damaged file (58, XX).
    case system
    /// The server accepts no writes: a standby, or read-only mode (25006).
    case readOnly = "read_only"
    /// Deadlock, or a serialization failure (40).
    case rollback
    /// A lock was not granted in time (55).
    case lock
    /// No partition for the row's time (23514 without a constraint name).
    case missingPartition = "missing_partition"
    /// The server refused a value (22).
    case data
    /// A constraint was violated (23).
    case constraint
    /// A row exceeded a limit of the server (54).
    case limit
    /// The role lacks a privilege (42501).
    case permission
    /// A table, column or function differs from what we expect (42, 3F, 26, 0A).
    case schema
    /// Any other SQLSTATE.
    case other
    /// Our deadline passed: the server answered neither the statement nor the request to cancel it.
    case deadline
    /// Our task was cancelled before or between statements.
    case cancelled
    /// Our process was out of threads, file descriptors or memory.
    case local
    /// We had closed the connection.
    case closed
}
