/// What kind of trouble the database had (`upstream_database_errors_total{class}`).
///
/// Groups of SQLSTATE classes (PostgreSQL documentation, appendix A); the same ones that the Postgres module tells apart
/// for its own errors, which a test compares.
package enum DatabaseErrorClass: Int, MetricLabel {
    /// No connection, or it broke (08, or no SQLSTATE at all).
    case connection
    /// The server refused the role, the password or the database name (28, 3D).
    case authentication
    /// Disk full, out of memory, too many connections (53).
    case resources
    /// Shutdown, start-up, recovery, a terminated session (57 without a cancelled statement).
    case intervention
    /// A statement was cancelled or ran into a time limit (57014, 25P03).
    case timeout
    /// An I/O error or a damaged file (58, XX).
    case system
    /// The server takes no writes: a standby, or read-only mode (25006).
    case readOnly
    /// Deadlock, or a serialization failure (40).
    case rollback
    /// A lock was not to be had in time (55).
    case lock
    /// No partition for the row's time.
    ///
    /// Only the Postgres module can tell it from a violated constraint; the SQLSTATE is the same.
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
    /// Anything else.
    case other

    /// The class of a five-character SQLSTATE; nil is what there is where the server sent none.
    package init(sqlState: String?) {
        self =
            switch sqlState {
            case nil: .connection
            case "25006": .readOnly
            case "57014", "25P03": .timeout
            case "42501": .permission
            case let state?: Self.group(state.prefix(2))
            }
    }

    private static func group(_ group: Substring) -> DatabaseErrorClass {
        switch group {
        case "08": .connection
        case "28", "3D": .authentication
        case "53": .resources
        case "57": .intervention
        case "58", "XX": .system
        case "40": .rollback
        case "55": .lock
        case "22": .data
        case "23": .constraint
        case "54": .limit
        case "42", "3F", "26", "0A": .schema
        default: .other
        }
    }

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
        }
    }
}
