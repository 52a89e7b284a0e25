/// Why the database, or the way to it, failed: the label `class` of `upstream_database_errors_total`.
///
/// A closed set. What the server says is classified once, where its result is read; the last cases are ours, where there is
/// no server's SQLSTATE.
package enum DatabaseErrorClass: Int, CaseIterable, Hashable, Sendable {
    /// No connection, or it broke (08, or no SQLSTATE at all).
    case connection
    /// The server refused the role, the password or the database name (28, 3D).
    case authentication
    /// The server's disk is full, its memory or its connections are used up (53).
    case resources
    /// Shutdown, start-up, recovery, a terminated session (57 without a cancelled statement).
    case intervention
    /// The server cancelled a statement, or ended it at its time limit (57014, 25P03).
    case timeout
    /// An I/O error or a damaged file (58, XX).
    case system
    /// The server takes no writes: a standby, or read-only mode (25006).
    case readOnly
    /// Deadlock, or a serialization failure (40).
    case rollback
    /// A lock was not granted in time (55).
    case lock
    /// No partition for the row's time (23514 without a constraint's name).
    case missingPartition
    /// A value was refused (22).
    case data
    /// A constraint was violated (23).
    case constraint
    /// A row was over a limit of the server (54).
    case limit
    /// The role may not do this (42501).
    case permission
    /// A table, a column or a function is not as we expect it (42, 3F, 26, 0A).
    case schema
    /// Anything else that the server says.
    case other
    /// Our own deadline: the server answered neither the statement nor a request to cancel it.
    case deadline
    /// Our own task was cancelled before a statement was sent, or between two.
    case cancelled
    /// Our own process had no thread, file descriptor or memory left.
    case local
    /// Our own side had closed the connection.
    case closed

    /// The label's value.
    package var text: String {
        switch self {
        case .connection: "connection"
        case .authentication: "authentication"
        case .resources: "resources"
        case .intervention: "intervention"
        case .timeout: "timeout"
        case .system: "system"
        case .readOnly: "read_only"
        case .rollback: "rollback"
        case .lock: "lock"
        case .missingPartition: "missing_partition"
        case .data: "data"
        case .constraint: "constraint"
        case .limit: "limit"
        case .permission: "permission"
        case .schema: "schema"
        case .other: "other"
        case .deadline: "deadline"
        case .cancelled: "cancelled"
        case .local: "local"
        case .closed: "closed"
        }
    }
}
