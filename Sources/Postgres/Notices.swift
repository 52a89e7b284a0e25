import CLibPQ

/// A server's warning during a command that succeeded.
package struct ServerWarning: Sendable, Hashable {
    package var sqlState: String
    /// The function of the server's source code that sent it.
    package var routine: String
    /// The text, but only from known routines, whose texts can't quote rows.
    package var text: String?

    /// Routines whose texts name only databases and counts: transaction ids or multixact ids are running out.
    private static let plain: Set<String> = [
        "GetNewTransactionId", "SetTransactionIdLimit", "GetNewMultiXactId", "SetMultiXactIdLimit",
    ]

    init(sqlState: String, routine: String, text: String?) {
        self.sqlState = sqlState
        self.routine = routine
        self.text = Self.plain.contains(routine) ? text : nil
    }
}

/// The server's notices during a command.
final class Notices {
    /// Whether the wait for a standby was broken off: the transaction has committed here, and perhaps nowhere else.
    ///
    /// PostgreSQL reports this by a warning only, and then success.
    private(set) var hasUnconfirmedCommit = false
    /// The first other warning.
    private(set) var warning: ServerWarning?

    func reset() {
        hasUnconfirmedCommit = false
        warning = nil
    }

    /// Records a notice; the result stays libpq's.
    func add(_ result: OpaquePointer) {
        // libpq owns the texts.
        func field(_ code: Int32) -> String? { PQresultErrorField(result, code).map { String(cString: $0) } }
        guard field(upstream_diag_severity) == "WARNING" else { return }
        let sqlState = field(upstream_diag_sqlstate) ?? ""
        guard !Self.isOfStandbyWait(sqlState: sqlState, routine: field(upstream_diag_function)) else {
            hasUnconfirmedCommit = true
            return
        }
        if warning == nil {
            let (routine, text) = (field(upstream_diag_function) ?? "", field(upstream_diag_message))
            warning = ServerWarning(sqlState: sqlState, routine: routine, text: text)
        }
    }

    /// Whether a warning says that the wait for a standby ended before the standby confirmed.
    ///
    /// `SyncRepWaitForLSN` sends it in every version, with 01000 when the statement is cancelled and with 57P01 when
    /// the session is terminated. If something on the way withholds the routine, any warning of these states may be it.
    static func isOfStandbyWait(sqlState: String, routine: String?) -> Bool {
        guard let routine else { return sqlState.hasPrefix("01") || sqlState.hasPrefix("57") }
        return routine.hasPrefix("SyncRep")
    }
}
