package import Vocabulary

/// Why PostgreSQL, or the way to it, failed.
///
/// Holds what the server says in its primary message and nothing of DETAIL, CONTEXT or HINT, which may quote rows.
package struct PostgresError: Error, Sendable, CustomStringConvertible {
    /// The closed set of failure classes.
    package typealias Class = DatabaseErrorClass

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
    /// - Parameters:
    ///   - failureClass: `deadline`, or `connection` where the server warned; with both the session is given up too.
    ///   - message: Why that is not known.
    /// - Returns: An error with the SQLSTATE that the standard has for it.
    static func unknownOutcome(_ failureClass: Class, _ message: String) -> PostgresError {
        // transaction_resolution_unknown
        PostgresError(failureClass, message, sqlState: "08007")
    }

    /// The task was cancelled: nothing is under way.
    ///
    /// - Parameter place: Where.
    /// - Returns: An error of class `cancelled`.
    package static func cancelled(_ place: String) -> PostgresError { PostgresError(.cancelled, "cancelled \(place)") }

    /// Whether the same statement may succeed later, for statements that carry what people wrote; what is unknown may.
    ///
    /// No message's row is judged by this: nothing that a statement raises says anything about one.
    package var maySucceedLater: Bool {
        switch failureClass {
        case .data, .constraint: false
        // Raised for a queue of notifications that is full, and for transaction ids that run out; the others of the class are of
        // the statement's own size.
        case .limit: sqlState == "54000"
        default: true
        }
    }

    /// Whether a statement that settles deliveries and writes their history may have failed for the history's sake: something
    /// that it needs is missing, forbidden, locked, damaged or full, and nothing is wrong with the session.
    package var mayBeOfHistory: Bool {
        switch failureClass {
        case .schema, .permission, .missingPartition, .constraint, .data, .limit, .lock, .system: true
        default: false
        }
    }

    /// Whether the statement calls a function that is not there, as in a schema of another version.
    package var isUnknownFunction: Bool { sqlState == "42883" }

    /// Whether the session should be given up, because another server, or another session, may do better.
    package var endsSession: Bool {
        switch failureClass {
        case .connection, .readOnly, .intervention, .deadline, .closed: true
        default: severity == "FATAL" || severity == "PANIC"
        }
    }

    package var description: String {
        guard let sqlState else { return message }
        return "\(message) (SQLSTATE \(sqlState))"
    }

    /// An error that no result of the server stands for.
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
        self.failureClass = PostgresError.classify(sqlState, isOfPartition: table != nil && constraint == nil)
        // Some messages of class 22 quote the value that was refused ("invalid input syntax for type json: …").
        self.message =
            failureClass == .data ? PostgresError.withoutQuotedValue(message) : message
    }

    /// The class of what a server says.
    ///
    /// - Parameters:
    ///   - sqlState: Its SQLSTATE.
    ///   - isOfPartition: Whether it names a table and no constraint, as of a row without a partition. Triggers that raise the same state
    ///     name none of both.
    /// - Returns: The class; never one of our own.
    package static func classify(_ sqlState: String, isOfPartition: Bool) -> Class {
        switch sqlState {
        case "25006": return .readOnly
        case "57014", "25P03": return .timeout
        case "42501": return .permission
        case "23514" where isOfPartition: return .missingPartition
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
