import CLibPQ

/// What the server remarked while it ran a command: only what says that a commit may be less than it seems.
///
/// Texts are dropped: they may quote rows.
final class Notices {
    /// Whether the wait for a standby was broken off: the transaction has committed here, and perhaps nowhere else.
    ///
    /// PostgreSQL says so by a warning alone, and then reports success.
    private(set) var hasUnconfirmedCommit = false
    /// Whether there was a warning (SQLSTATE class 01) that no `RAISE` of somebody's function made.
    private(set) var hasWarning = false

    /// Forgets what was remarked before.
    func reset() {
        hasUnconfirmedCommit = false
        hasWarning = false
    }

    /// Takes a notice; the result stays libpq's.
    func add(_ result: OpaquePointer) {
        // libpq owns the texts.
        func field(_ code: Int32) -> String? { PQresultErrorField(result, code).map { String(cString: $0) } }
        guard field(upstream_diag_severity) == "WARNING" else { return }
        let function = field(upstream_diag_function)
        if function == "SyncRepWaitForLSN" { hasUnconfirmedCommit = true }
        // exec_stmt_raise: PL/pgSQL's RAISE.
        if field(upstream_diag_sqlstate)?.hasPrefix("01") ?? false, function != "exec_stmt_raise" { hasWarning = true }
    }
}
