import CLibPQ
import Glibc

/// Where the database is and how patiently we wait for it.
///
/// Its description never shows a password.
package struct PostgresSettings: Sendable, CustomStringConvertible {
    /// A libpq URI or key=value string; `PG*` variables fill what it leaves open.
    ///
    /// May hold a password: never log it.
    package let url: String
    /// How long one statement may take before it is cancelled, in milliseconds.
    package var statementTimeout = 30_000
    /// How long a statement waits for a lock, in milliseconds.
    package var lockTimeout = 10_000
    /// How long a transaction may stand idle before the server ends the session, in milliseconds.
    package var idleInTransactionTimeout = 60_000
    /// How long the server may take to answer a cancel request before the connection is given up, in milliseconds.
    package var cancelGrace = 5_000
    /// Whether every statement finds its rows by an index, row by row.
    ///
    /// For tables that fill and empty all the time: the planner, which knows them as they were when they were vacuumed
    /// last, would take the look-up of a few rows for a scan of what it believes to be as few, and walk over everything
    /// that was deleted since. Measured: 100,000 dead entries read for 300 rows.
    package var findsRowsByIndex = false
    /// What `pg_stat_activity` shows, unless the URL or `PGAPPNAME` names another.
    package var applicationName = "upstream-worker"

    /// `user@host:port/database` as far as the URL names them.
    package let description: String
    private let isMultiHost: Bool

    /// Checks the form of the URL; nothing is connected.
    ///
    /// - Throws: ``PostgresError`` of class `connection` when libpq can't parse the URL.
    package init(url: String) throws(PostgresError) {
        self.url = url
        var errorText: UnsafeMutablePointer<CChar>?
        // libpq allocates both; we free both.
        guard let options = PQconninfoParse(url, &errorText) else {
            let text = errorText.map { String(cString: $0) } ?? "out of memory"
            PQfreemem(errorText)
            // libpq quotes what it can't parse, and that may be a password.
            let mayHoldSecret = url.contains("@") || url.contains("password")
            throw PostgresError(
                .connection,
                "database.url is neither a libpq URI nor a key=value string"
                    + (mayHoldSecret ? "" : ": " + text.split(separator: "\n").joined(separator: " "))
            )
        }
        defer { PQconninfoFree(options) }
        var values: [String: String] = [:]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { values[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        func value(_ keyword: String, _ variable: String) -> String? {
            values[keyword] ?? getenv(variable).map { String(cString: $0) }
        }
        let host = value("host", "PGHOST") ?? value("hostaddr", "PGHOSTADDR")
        self.isMultiHost = host?.contains(",") ?? false
        var text = value("user", "PGUSER").map { $0 + "@" } ?? ""
        text += host ?? "local socket"
        if let port = value("port", "PGPORT") { text += ":" + port }
        if let database = value("dbname", "PGDATABASE") { text += "/" + database }
        self.description = text
    }

    /// Keywords and values for `PQconnectdbParams` with `expand_dbname`: later ones win over earlier ones.
    var connectionParameters: [(String, String)] {
        var list: [(String, String)] = [
            // A peer that vanished without a word is noticed within half a minute, whoever of the two has to send.
            ("keepalives_idle", "10"), ("keepalives_interval", "5"), ("keepalives_count", "3"),
            ("tcp_user_timeout", "20000"),
            ("fallback_application_name", applicationName),
        ]
        if getenv("PGCONNECT_TIMEOUT") == nil { list.append(("connect_timeout", "5")) }
        if isMultiHost, getenv("PGTARGETSESSIONATTRS") == nil {
            list.append(("target_session_attrs", "read-write"))
        }
        list.append(("dbname", url))
        list.append(("client_encoding", "UTF8"))
        return list
    }
}
