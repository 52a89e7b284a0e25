/// Why PostgreSQL, or the way to it, failed.
///
/// Holds what the server says in its primary message and nothing of DETAIL, CONTEXT or HINT, which may quote rows.
package struct PostgresError: Error, Sendable, CustomStringConvertible {
    /// The closed set of failure classes; the label `class` of `upstream_database_errors_total`.
    package enum Class: String, CaseIterable, Sendable {
        /// No connection, or it broke (08, or no SQLSTATE at all).
        case connection
        /// The server refused the role, the password or the database name (28, 3D).
        case authentication
        /// Disk full, out of memory, too many connections (53).
        case resources
        /// Shutdown, start-up, recovery, a terminated session (57 without a cancelled statement).
        case intervention
        /// A statement was cancelled or ran into a time limit (57014, 25P03, and our own deadline).
        case timeout
        /// An I/O error or a damaged file (58, XX).
        case system
        /// The server takes no writes: a standby, or read-only mode (25006).
        case readOnly = "read_only"
        /// Deadlock, or a serialization failure (40).
        case rollback
        /// A lock was not to be had in time (55).
        case lock
        /// No partition for the row's time (23514 without a constraint's name).
        case missingPartition = "missing_partition"
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
    }

    /// The class.
    package var failureClass: Class
    /// The SQLSTATE, five characters; nil where the server gave none.
    package var sqlState: String?
    /// `ERROR`, `FATAL` or `PANIC`, not translated; nil where the server gave none.
    package var severity: String?
    /// The primary message, one line.
    package var message: String
    /// The table that the server names.
    package var table: String?
    /// The constraint that the server names.
    package var constraint: String?

    /// Whether a time limit of ours ended the statement: on a smaller one it might have been kept.
    package var isTimeLimit = false

    /// The transaction may have committed or not: it is to be looked up, or repeated where that does no harm.
    ///
    /// - Parameter message: Why that is not known.
    /// - Returns: An error of class `connection`, so that the session is given up too.
    static func unknownOutcome(_ message: String) -> PostgresError {
        // transaction_resolution_unknown
        PostgresError(.connection, message, sqlState: "08007")
    }

    /// Whether the fault lies with the surroundings, so that the same statement may succeed later.
    ///
    /// Everything unknown counts as surroundings: better to wait than to blame a row.
    package var isEnvironment: Bool {
        switch failureClass {
        case .data, .constraint, .limit: false
        default: true
        }
    }

    /// Whether the session should be given up, because another server, or another session, may do better.
    package var endsSession: Bool {
        failureClass == .connection || failureClass == .readOnly || failureClass == .intervention
            || severity == "FATAL" || severity == "PANIC"
    }

    package var description: String {
        guard let sqlState else { return message }
        return "\(message) (SQLSTATE \(sqlState))"
    }

    /// An error of our own side: no connection, or a deadline.
    package init(_ failureClass: Class, _ message: String, sqlState: String? = nil) {
        self.failureClass = failureClass
        self.sqlState = sqlState
        self.message = message
    }

    /// An error that the server reported.
    package init(sqlState: String, severity: String?, message: String, table: String?, constraint: String?) {
        self.sqlState = sqlState
        self.severity = severity
        self.table = table
        self.constraint = constraint
        self.failureClass = PostgresError.classify(sqlState, hasConstraint: constraint != nil)
        // Some messages of class 22 quote the value that was refused ("invalid input syntax for type json: …").
        self.message =
            failureClass == .data ? PostgresError.withoutQuotedValue(message) : message
    }

    /// The class of a SQLSTATE.
    package static func classify(_ sqlState: String, hasConstraint: Bool) -> Class {
        switch sqlState {
        case "25006": return .readOnly
        case "57014", "25P03": return .timeout
        case "42501": return .permission
        case "23514" where !hasConstraint: return .missingPartition
        default: break
        }
        switch sqlState.prefix(2) {
        case "08": return .connection
        case "28", "3D": return .authentication
        case "53": return .resources
        case "57": return .intervention
        case "58", "XX": return .system
        case "40": return .rollback
        case "55": return .lock
        case "22": return .data
        case "23": return .constraint
        case "54": return .limit
        case "42", "3F", "26", "0A": return .schema
        default: return .other
        }
    }

    private static func withoutQuotedValue(_ message: String) -> String {
        guard let quote = message.firstIndex(of: "\"") else { return message }
        return String(message[..<quote]) + "…"
    }
}
