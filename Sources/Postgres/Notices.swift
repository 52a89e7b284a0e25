import CLibPQ

/// A warning that the server sent while it ran a command, and that changes nothing about the command's success.
package struct ServerWarning: Sendable, Hashable {
    /// The SQLSTATE.
    package var sqlState: String
    /// The function of the server's source that sent it.
    package var routine: String
    /// What it says, where that can't hold any of a row: only of the few routines of the server that are known.
    package var text: String?

    /// Routines of the server whose texts name databases and counts alone: transaction ids, and multixact ids, that run out.
    private static let plain: Set<String> = [
        "GetNewTransactionId", "SetTransactionIdLimit", "GetNewMultiXactId", "SetMultiXactIdLimit",
    ]

    init(sqlState: String, routine: String, text: String?) {
        self.sqlState = sqlState
        self.routine = routine
        self.text = Self.plain.contains(routine) ? text : nil
    }
}

/// What the server remarked while it ran a command.
final class Notices {
    /// Whether the wait for a standby was broken off: the transaction has committed here, and perhaps nowhere else.
    ///
    /// PostgreSQL says so by a warning alone, and then reports success.
    private(set) var hasUnconfirmedCommit = false
    /// The first other warning.
    private(set) var warning: ServerWarning?

    /// Forgets what was remarked before.
    func reset() {
        hasUnconfirmedCommit = false
        warning = nil
    }

    /// Takes a notice; the result stays libpq's.
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
            warning = ServerWarning(
                sqlState: sqlState,
                routine: field(upstream_diag_function) ?? "",
                text: field(upstream_diag_message)
            )
        }
    }

    /// Whether a warning says that the wait for a standby ended before the standby had confirmed.
    ///
    /// `SyncRepWaitForLSN` sends it in every version, with 01000 when the statement is cancelled and with 57P01 when the session
    /// is ended. Something between us and the server may withhold the routine; then any warning of these states may be it.
    static func isOfStandbyWait(sqlState: String, routine: String?) -> Bool {
        guard let routine else { return sqlState.hasPrefix("01") || sqlState.hasPrefix("57") }
        return routine.hasPrefix("SyncRep")
    }
}
