import CLibPQ
import Glibc
import Vocabulary

/// The database's address and our time limits; its description never shows a password.
package struct PostgresSettings: Sendable, CustomStringConvertible {
    /// A libpq URI or key=value string, completed by `PG*` variables; may hold a password, so never log it.
    package let url: String
    /// The time limit of a statement before it is cancelled, in milliseconds.
    package var statementTimeout = 30_000
    /// The time limit for a lock, in milliseconds.
    package var lockTimeout = 10_000
    /// How long a transaction may be idle before the server ends the session, in milliseconds.
    package var idleInTransactionTimeout = 60_000
    /// How long the server may take to answer a cancel request before we drop the connection, in milliseconds.
    package var cancelGrace = 5_000
    /// Whether to forbid sequential and bitmap scans, hash and merge joins, and sorting what an index has in order.
    ///
    /// For tables that fill and empty all the time: the planner's statistics are from the last vacuum, so it would
    /// mistake a scan over everything deleted since for a look-up of a few rows. Measured: 100,000 dead entries read
    /// for 300 rows.
    package var findsRowsByIndex = false
    /// Whether the session makes writes that others rely on.
    ///
    /// Then it opens only on a server that takes writes, trying several hosts one by one; a statement without an answer
    /// is probed; and a wait for a standby is never broken off.
    package var isWriter = false
    /// Whether the session only reads, where `database.read_url` says.
    ///
    /// Of several hosts it takes a standby first. What a standby cancels, since replay removes rows that it needs, runs
    /// once more.
    package var isReader = false
    /// How long a writer's statement may go without an answer before it is probed, in milliseconds.
    package var probeAfter = 5_000
    /// How long a probe may take, in milliseconds.
    package var probeLimit = 2_000
    /// The maximum wait between two attempts to connect, in milliseconds.
    package var reconnectMaximum = 10_000
    /// The name in `pg_stat_activity`, unless the URL or `PGAPPNAME` sets another.
    package var applicationName = "upstream-worker"

    /// `user@host:port/database` as far as the URL names them.
    package let description: String
    private let isMultiHost: Bool
    /// The hosts that the URL names; a single entry without values if there is one host or none by name.
    let hosts: [HostChoice]
    /// Whether libpq may have several hosts to choose from that ``hosts`` does not name: those of a service file.
    let mayHaveOtherHosts: Bool
    /// The time limit for connecting to one host, in milliseconds.
    let connectTimeout: Int

    /// The settings of a session that reads where `database.read_url` says; throws when libpq can't parse it.
    package static func reader(url: String) throws(PostgresError) -> PostgresSettings {
        var settings = try PostgresSettings(url: url, of: "database.read_url")
        settings.isReader = true
        return settings
    }

    /// Parses the URL of a configuration's key without connecting; throws when libpq can't.
    package init(url: String, of key: String = "database.url") throws(PostgresError) {
        self.url = url
        var errorText: UnsafeMutablePointer<CChar>?
        // libpq allocates both; we free both.
        guard let options = PQconninfoParse(url, &errorText) else {
            let text = errorText.map { String(cString: $0) } ?? "out of memory"
            PQfreemem(errorText)
            // libpq quotes what it can't parse, and that may be a password.
            let mayHoldSecret = url.contains("@") || url.contains("password")
            var error = PostgresError(
                .connection,
                "\(key) is neither a libpq URI nor a key=value string"
                    + (mayHoldSecret ? "" : ": " + text.split(separator: "\n").joined(separator: " "))
            )
            error.unusableKey = key
            throw error
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
        hosts = PostgresSettings.split(
            host: value("host", "PGHOST"),
            address: value("hostaddr", "PGHOSTADDR"),
            port: value("port", "PGPORT")
        )
        mayHaveOtherHosts = hosts.count == 1 && value("service", "PGSERVICE") != nil
        let seconds = value("connect_timeout", "PGCONNECT_TIMEOUT").flatMap { Int($0) } ?? 5
        // Two seconds at least, as in libpq, which has no limit for 0 and below.
        connectTimeout = seconds <= 0 ? 60_000 : min(max(seconds, 2), 3_600) * 1_000
        var text = value("user", "PGUSER").map { $0 + "@" } ?? ""
        text += host ?? "local socket"
        if let port = value("port", "PGPORT") { text += ":" + port }
        if let database = value("dbname", "PGDATABASE") { text += "/" + database }
        self.description = text
    }

    /// Bounds the time that a transaction may be idle where only our own statements run between begin and commit: far
    /// below any lease, as a worker frozen there holds its locks until the server ends the session.
    package mutating func shortenIdleInTransaction() { idleInTransactionTimeout = min(idleInTransactionTimeout, 5_000) }

    /// Parameters that a role's defaults may change but our statements rely on: for their meaning, so that each sees what
    /// was committed before it, or so that PostgreSQL's log never quotes what they carry.
    static let safeguards = [
        (isolation, "read committed"),
        ("standard_conforming_strings", "on"), ("exit_on_error", "off"), ("log_parameter_max_length_on_error", "0"),
        ("debug_print_parse", "off"), ("debug_print_rewritten", "off"), ("debug_print_plan", "off"),
    ]

    private static let isolation = "default_transaction_isolation"

    /// Parameters that leave only plans that find each row by an index, in the order of what they are looked up by.
    package static let plansByIndex = ["seqscan", "bitmapscan", "hashjoin", "mergejoin", "sort"].map {
        ("enable_\($0)", "off")
    }

    /// The script, without a final semicolon, that sets our parameters by `SET SESSION` or `SET LOCAL`.
    func parameters(_ command: String, version: Int32) -> String {
        var values = [
            ("statement_timeout", "\(statementTimeout)"),
            ("lock_timeout", "\(lockTimeout)"),
            ("idle_in_transaction_session_timeout", "\(idleInTransactionTimeout)"),
            // A broken-off wait for a standby is reported by a warning only.
            ("client_min_messages", "warning"),
            // Compiling a plan takes longer than running it: a limit that is a parameter makes it seem expensive on a
            // large table. And no cancel ends it: thousands of conditions compile for many minutes, and hold back
            // vacuum as long.
            ("jit", "off"),
        ]
        values += Self.safeguards.map { name, value in
            (command == "SET LOCAL" && name == Self.isolation ? "transaction_isolation" : name, "'\(value)'")
        }
        if version >= 140_000 { values.append(("idle_session_timeout", "0")) }
        if version >= 170_000 { values.append(("transaction_timeout", "0")) }
        if findsRowsByIndex { values += Self.plansByIndex }
        return values.map { "\(command) \($0) = \($1)" }.joined(separator: "; ")
    }

    private static func split(
        host: String?,
        address: String?,
        port: String?
    ) -> [HostChoice] {
        func list(_ text: String?) -> [String] {
            (text ?? "").split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        }
        let (hosts, addresses, ports) = (list(host), list(address), list(port))
        let count = max(hosts.count, addresses.count)
        // An empty value can't be chosen by keyword: libpq treats it as none.
        let isNamed = (0..<count).allSatisfy { index in
            hosts.indices.contains(index) && !hosts[index].isEmpty
                || addresses.indices.contains(index) && !addresses[index].isEmpty
        }
        guard count > 1, isNamed, [0, 1, count].contains(ports.count) else { return [HostChoice()] }
        guard hosts.count <= 1 || hosts.count == count, addresses.count <= 1 || addresses.count == count else {
            return [HostChoice()]
        }
        return (0..<count).map { index in
            HostChoice(
                host: hosts.count == count ? hosts[index] : nil,
                address: addresses.count == count ? addresses[index] : nil,
                // An empty one is libpq's own default; a URI without ports has a list of such.
                port: ports.count == count ? (ports[index].isEmpty ? "5432" : ports[index]) : nil
            )
        }
    }

    /// Keywords and values for `PQconnectdbParams` with `expand_dbname`: later ones win.
    var connectionParameters: [(String, String)] {
        var list: [(String, String)] = [
            // A vanished peer is noticed within half a minute, whichever side has to send.
            ("keepalives_idle", "10"), ("keepalives_interval", "5"), ("keepalives_count", "3"),
            ("tcp_user_timeout", "20000"),
            ("fallback_application_name", applicationName),
        ]
        if getenv("PGCONNECT_TIMEOUT") == nil { list.append(("connect_timeout", "5")) }
        if isMultiHost, getenv("PGTARGETSESSIONATTRS") == nil {
            list.append(("target_session_attrs", isReader ? "prefer-standby" : "read-write"))
        }
        list.append(("dbname", url))
        list.append(("client_encoding", "UTF8"))
        // A pooler may repeat what it heard of a server long ago: we ask the server itself.
        if isWriter { list.append(("target_session_attrs", "any")) }
        return list
    }
}
