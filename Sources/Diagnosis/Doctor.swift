import MessageStore
package import Postgres
package import Vocabulary

/// Examines a running system through its database: catalogs, counters, and the tables of workers, handlers and queues.
///
/// It reads no messages, and the session's time limit bounds each statement. What the role may not see by design is
/// reported (``Diagnosis/unseen``); a subject that could not be examined is a finding, since anything may be wrong
/// there. The rest is examined all the same.
package struct Doctor: Sendable {
    /// Thresholds from which on something is a finding.
    package struct Limits: Sendable {
        /// How long a session is idle inside a transaction.
        package var idle = Duration.seconds(300)
        /// How long a transaction runs.
        package var transaction = Duration.seconds(3_600)
        /// How long a prepared transaction waits.
        package var prepared = Duration.seconds(300)
        /// Age in transactions of a snapshot whose age in time is unknown, or of a standby's.
        package var snapshotAge: Int64 = 5_000_000
        /// Dead rows of a table, if they are also at least half of its live ones.
        package var deadRows = 100_000
        /// How far a standby lags.
        package var lag = Duration.seconds(60)
        /// Bytes that a standby lags, or that a slot retains.
        package var walBytes: Int64 = 1 << 30
        /// The share of `max_slot_wal_keep_size` that a slot retains.
        package var walShare = 0.5
        /// How long a handler is paused.
        package var pause = Duration.seconds(3_600)
        /// How long a delivery waits.
        package var delivery = Duration.seconds(900)
        /// Dead letters within an hour.
        package var deadLetters = 100
        /// Quarantined stanzas, or conflicts, within an hour.
        package var surge = 100
        /// The share of connections in use.
        package var connections = 0.9
        /// How long sessions wait for a lock.
        package var lockWait = Duration.seconds(2)
        /// How long a transaction blocks writers of one of our tables.
        package var lockHeld = Duration.seconds(5)
        /// Grace period after the start of a worker, or of the server.
        package var settling = Duration.seconds(60)
        /// Remaining validity of a certificate.
        package var certificate = Duration.seconds(14 * 86_400)
        /// Consecutive failed attempts of a handler in one worker.
        package var failures = 20
        /// The share of a sequence in use.
        package var sequence = 0.5
        package var clock = Duration.seconds(10)
        /// Time since the last run of retention.
        package var retention = Duration.seconds(26 * 3_600)
        /// How many days partitions must reach ahead.
        package var daysAhead = 2
        /// Days until the disk is full: warning, and critical.
        package var diskDays = (warning: 14.0, critical: 3.0)
        /// Time until the disk is full at the last hour's rate: critical.
        package var diskHours = Duration.seconds(24 * 3_600)
        /// Free space: warning, and critical.
        package var diskFloor: (warning: Int64, critical: Int64) = (4 << 30, 1 << 30)

        package init() {}
    }

    /// The bound on counts of waiting deliveries and dead letters.
    static let counted = 10_000

    let connection: PostgresConnection
    let reads: Result<ReadLag, PostgresError>?
    let limits: Limits
    let clock: @Sendable () -> Timestamp
    let freeSpace: @Sendable (String) -> Int64?

    /// Examines the system whose database `connection` leads to.
    ///
    /// The session needs the rights of `upstream_worker` or `upstream_reader`; a read-only one will do. `clock` is this
    /// machine's; `freeSpace` gives the free bytes at a folder, nil if unknown. `reads` is what ``readLag(_:)`` found
    /// where `database.read_url` says; nil if it is not set.
    package init(
        _ connection: PostgresConnection,
        reads: Result<ReadLag, PostgresError>? = nil,
        limits: Limits = Limits(),
        clock: @escaping @Sendable () -> Timestamp = { .now },
        freeSpace: @escaping @Sendable (String) -> Int64? = DatabaseDisk.freeSpace
    ) {
        (self.connection, self.reads, self.limits) = (connection, reads, limits)
        (self.clock, self.freeSpace) = (clock, freeSpace)
    }

    /// Examines everything.
    ///
    /// - Throws: `PostgresError` if the database went away; what is refused, missing or too slow is not thrown.
    package func examine() async throws(PostgresError) -> Diagnosis {
        var diagnosis = Diagnosis()
        // The rest needs a schema, which may be missing.
        let state = try await look("schema", &diagnosis, schema) ?? nil
        let seesAll = try await look("server", &diagnosis, server) ?? false
        try await look("locks", &diagnosis, locks)
        try await look("sessions", &diagnosis) { diagnosis throws(PostgresError) in
            try await sessions(&diagnosis, seesAll: seesAll)
        }
        try await look("replication slots", &diagnosis, slots)
        try await look("standbys", &diagnosis) { diagnosis throws(PostgresError) in
            try await standbys(&diagnosis, seesAll: seesAll)
        }
        reading(&diagnosis)
        guard state != .missing else {
            diagnosis.skip("everything else", "there is no upstream schema")
            diagnosis.sort()
            return diagnosis
        }
        if state == .current {
            try await look("rights", &diagnosis, rights)
            try await look("connection limits", &diagnosis, connectionLimits)
            try await look("indexes and triggers", &diagnosis, drift)
        }
        try await look("tables", &diagnosis, tables)
        try await look("partitions", &diagnosis, partitions)
        let known = try await look("what retention would do", &diagnosis, plan)
        if let known {
            try await look("disk", &diagnosis) { diagnosis throws(PostgresError) in try await disk(known, &diagnosis) }
        }
        try await look("workers", &diagnosis, workers)
        try await look("handlers", &diagnosis, handlers)
        if let known {
            try await look("retention", &diagnosis) { diagnosis throws(PostgresError) in
                try await retention(known, &diagnosis)
            }
        }
        try await look("odd messages", &diagnosis, oddMessages)
        diagnosis.sort()
        return diagnosis
    }

    /// Examines one subject; failure to do so is a finding with the reason.
    @discardableResult
    private func look<T>(
        _ subject: String,
        _ diagnosis: inout Diagnosis,
        _ body: (inout Diagnosis) async throws(PostgresError) -> T
    ) async throws(PostgresError) -> T? {
        do throws(PostgresError) {
            return try await body(&diagnosis)
        } catch  where !error.endsSession && error.failureClass != .cancelled {
            let words: (reason: String, fix: String) =
                switch error.failureClass {
                case .permission: ("this role may not: \(error.message)", "run \(RolesScript.path) again")
                case .timeout: ("it took too long", "allow more with --timeout, and see what the database is busy with")
                default: ("\(error)", "run doctor again; if it stays so, see what the database's log says")
                }
            diagnosis.find(.notLookedAt, "\(subject) could not be looked at: \(words.reason)", fix: words.fix)
            return nil
        }
    }

    /// The rows of a statement, each as a tuple of its columns.
    func rows<each Column: SQLDecodable>(
        _ sql: SQL,
        as type: (repeat each Column).Type
    ) async throws(PostgresError) -> [(repeat each Column)] {
        try await connection.result(of: sql).rows(as: type)
    }

    /// Compares the schema with this program's.
    private func schema(_ diagnosis: inout Diagnosis) async throws(PostgresError) -> SchemaState? {
        var state: SchemaState?
        var problem: String?
        do throws(MigrationError) {
            state = try await Migrator().state(connection)
            problem = state?.problem
        } catch {
            if case .database(let cause, _) = error { throw cause }
            problem = "\(error)"
        }
        if let problem { diagnosis.find(.schemaDiffers, problem, fix: "upstream-worker migrate status") }
        return state
    }
}

extension Diagnosis {
    mutating func find(_ name: FindingName, _ text: String, fix: String) {
        findings.append(Finding(name: name, text: text, fix: fix))
    }

    mutating func note(_ name: String, _ value: String) { facts.append(Fact(name: name, value: value)) }

    mutating func skip(_ subject: String, _ reason: String) { unseen.append(Unseen(subject: subject, reason: reason)) }
}

/// What findings are made of.
enum Said {
    /// Some names, and how many more there are.
    static func names(_ names: [String]) -> String {
        names.prefix(5).joined(separator: ", ") + (names.count > 5 ? " and \(names.count - 5) more" : "")
    }

    static func session(_ pid: Int64, _ user: String, _ application: String) -> String {
        "session \(pid) (\(user)\(application.isEmpty ? "" : ", \(application)"))"
    }
}
