package import Vocabulary

/// Why PostgreSQL or the connection to it failed.
///
/// Holds the server's primary message, but not DETAIL, CONTEXT or HINT, which may quote rows.
package struct PostgresError: Error, Sendable, CustomStringConvertible {
    package typealias Class = DatabaseErrorClass

    package var failureClass: Class
    /// The SQLSTATE, five characters; nil if the server gave none.
    package var sqlState: String?
    /// `ERROR`, `FATAL` or `PANIC`, not translated; nil if the server gave none.
    package var severity: String?
    /// The primary message, on one line.
    package var message: String
    package var table: String?
    package var constraint: String?

    /// Whether our time limit ended the statement: a smaller one might have succeeded.
    package var isTimeLimit = false

    /// Whether it is of a session that reads where `database.read_url` says.
    package var isOfReader = false

    /// The configuration's key whose value libpq can't parse; nil for other errors.
    package internal(set) var unusableKey: String?

    /// Whether the server refuses the content of a row, by the report of a function that caught the error.
    ///
    /// Never for what a statement or its COMMIT raises, whatever the SQLSTATE.
    package var refusesRow = false

    /// An error for a transaction that may have committed: look it up, or repeat it if that is harmless.
    ///
    /// The class is `deadline`, or `connection` after a server's warning; both end the session.
    static func unknownOutcome(_ failureClass: Class, _ message: String) -> PostgresError {
        // transaction_resolution_unknown
        PostgresError(failureClass, message, sqlState: "08007")
    }

    /// An error for a cancelled task with nothing under way.
    package static func cancelled(_ place: String) -> PostgresError { PostgresError(.cancelled, "cancelled \(place)") }

    /// Whether a statement with user-written content may succeed later; unknown errors may.
    ///
    /// Not for judging a message's row: nothing that such a statement raises says anything about one.
    package var maySucceedLater: Bool {
        switch failureClass {
        case .data, .constraint: false
        // A full notification queue, or transaction ids that run out; the class's other states are about the
        // statement's size.
        case .limit: sqlState == "54000"
        default: true
        }
    }

    /// Whether a statement that settles deliveries and writes their history may have failed because of the history:
    /// something it needs is missing, forbidden, locked, damaged or full, while the session is fine.
    package var mayBeOfHistory: Bool {
        switch failureClass {
        case .schema, .permission, .missingPartition, .constraint, .data, .limit, .lock, .system: true
        default: false
        }
    }

    /// The same error, of a session that reads where `database.read_url` says.
    package var ofReader: PostgresError {
        var error = self
        error.isOfReader = true
        return error
    }

    /// What a standby's second refusal of a statement means, with the fix; nil for other errors.
    ///
    /// Reading alone never fails this way on a primary.
    package var standbyConflict: String? {
        guard isOfReader, failureClass == .rollback else { return nil }
        return "the standby cancelled it twice, since replay removes rows that it needs: set hot_standby_feedback = on "
            + "there, or raise max_standby_streaming_delay"
    }

    /// Whether to give up the session, since another server or session may succeed.
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

    /// An error that is not a server's.
    package init(_ failureClass: Class, _ message: String, sqlState: String? = nil) {
        self.failureClass = failureClass
        self.sqlState = sqlState
        self.message = message
    }

    /// A server's error.
    package init(
        sqlState: String,
        severity: String?,
        message: String,
        table: String? = nil,
        constraint: String? = nil
    ) {
        self.sqlState = sqlState
        self.severity = severity
        self.table = table
        self.constraint = constraint
        self.failureClass = PostgresError.classify(sqlState, isOfPartition: table != nil && constraint == nil)
        // Some messages of class 22 quote the refused value ("invalid input syntax for type json: …").
        self.message =
            failureClass == .data ? PostgresError.withoutQuotedValue(message) : message
    }

    /// The class of a server's error, never one of our own.
    ///
    /// `isOfPartition` says that it names a table but no constraint, as for a row without a partition. Triggers that
    /// raise the same state name neither.
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
        // 2B: something of a site's own depends on what is to go.
        case "42", "3F", "26", "0A", "2B": return .schema
        default: return .other
        }
    }

    private static func withoutQuotedValue(_ message: String) -> String {
        guard let quote = message.firstIndex(of: "\"") else { return message }
        return String(message[..<quote]) + "…"
    }
}
