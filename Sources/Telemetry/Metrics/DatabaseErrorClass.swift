/// What kind of trouble the database had (`upstream_database_errors_total{class}`).
///
/// Groups of SQLSTATE classes, PostgreSQL documentation, appendix A.
package enum DatabaseErrorClass: Int, MetricLabel {
    /// No connection, or it broke (08, or no SQLSTATE at all).
    case connection
    /// Shut down, starting up, or cancelled (57).
    case shutdown
    /// Out of disk, memory or connections (53), or a system error (58).
    case resources
    /// A lock was not to be had in time (55).
    case lock
    /// Serialization failure or deadlock (40).
    case serialization
    /// Writes are refused: a standby, or read-only (25).
    case readOnly
    /// Wrong password or missing rights (28, 42501).
    case authorization
    /// The content of a row was refused (22, 23, 54).
    case data
    /// The schema isn't what we expect (3D, 3F, 42).
    case schema
    /// Anything else.
    case other

    /// The class of a five-character SQLSTATE; nil is what libpq gives where the server sent none.
    package init(sqlState: String?) {
        guard let sqlState else {
            self = .connection
            return
        }
        if sqlState == "42501" {
            self = .authorization
            return
        }
        self =
            switch sqlState.prefix(2) {
            case "08": .connection
            case "57": .shutdown
            case "53", "58": .resources
            case "55": .lock
            case "40": .serialization
            case "25": .readOnly
            case "28": .authorization
            case "22", "23", "54": .data
            case "3D", "3F", "42": .schema
            default: .other
            }
    }

    package var text: String {
        switch self {
        case .connection: "connection"
        case .shutdown: "shutdown"
        case .resources: "resources"
        case .lock: "lock"
        case .serialization: "serialization"
        case .readOnly: "read_only"
        case .authorization: "authorization"
        case .data: "data"
        case .schema: "schema"
        case .other: "other"
        }
    }
}
