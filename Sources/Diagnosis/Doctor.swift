import MessageStore
package import Postgres
package import Vocabulary

/// Looks at a running system, from its database: catalogs, counters, and the tables of workers, handlers and what waits.
///
/// It reads no messages, and each statement is bounded by the session's time limit. What the session's role may not see by
/// design is said (``Diagnosis/unseen``); a subject that could not be looked at is a finding, since there may be anything. The
/// rest is looked at all the same.
package struct Doctor: Sendable {
    /// From where on something is a finding.
    package struct Limits: Sendable {
        /// A session that is idle inside a transaction for as long.
        package var idle = Duration.seconds(300)
        /// A transaction that runs for as long.
        package var transaction = Duration.seconds(3_600)
        /// A prepared transaction that waits for as long.
        package var prepared = Duration.seconds(300)
        /// Transactions behind, for a snapshot whose age in time is not known, and for a standby's.
        package var snapshotAge: Int64 = 5_000_000
        /// Dead rows of a table; they have to be half of its living ones as well.
        package var deadRows = 100_000
        /// A standby that is so far behind.
        package var lag = Duration.seconds(60)
        /// A standby that is so many bytes behind, or a slot that keeps so many.
        package var walBytes: Int64 = 1 << 30
        /// A handler that is paused for as long.
        package var pause = Duration.seconds(3_600)
        /// A delivery that waits for as long.
        package var delivery = Duration.seconds(900)
        /// Dead letters within an hour.
        package var deadLetters = 100
        /// Quarantined stanzas, or conflicts, within an hour.
        package var surge = 100
        /// The share of the connections that is used.
        package var connections = 0.9
        /// Sessions that wait for a lock for as long.
        package var lockWait = Duration.seconds(2)
        /// A transaction that keeps writers out of one of our tables for as long.
        package var lockHeld = Duration.seconds(5)
        /// How long a worker, or the server, may take after its start until what it needs is there.
        package var settling = Duration.seconds(60)
        /// A certificate that ends within so long.
        package var certificate = Duration.seconds(14 * 86_400)
        /// Attempts in a row that a handler failed in one worker.
        package var failures = 20
        /// The share of a sequence that is used.
        package var sequence = 0.5
        /// Clocks that differ by so much.
        package var clock = Duration.seconds(10)
        /// A run of retention is so long ago.
        package var retention = Duration.seconds(26 * 3_600)
        /// The days that partitions must reach ahead.
        package var daysAhead = 2
        /// The disk is full within so many days: a warning, and critical.
        package var diskDays = (warning: 14.0, critical: 3.0)
        /// The disk is full within so much at the pace of the last hour: critical.
        package var diskHours = Duration.seconds(24 * 3_600)
        /// Less space than this is free: a warning, and critical.
        package var diskFloor: (warning: Int64, critical: Int64) = (4 << 30, 1 << 30)

        package init() {}
    }

    /// How counts of what waits and what died are bounded.
    static let counted = 10_000

    let connection: PostgresConnection
    let limits: Limits
    let clock: @Sendable () -> Timestamp
    let freeSpace: @Sendable (String) -> Int64?

    /// A look at the system whose database the connection leads to.
    ///
    /// - Parameters:
    ///   - connection: A session of `upstream_worker` or `upstream_reader`, or with more rights; one that only reads will do.
    ///   - limits: From where on something is a finding.
    ///   - clock: This machine's clock.
    ///   - freeSpace: The bytes that are free where a folder is; nil where that can't be told.
    package init(
        _ connection: PostgresConnection,
        limits: Limits = Limits(),
        clock: @escaping @Sendable () -> Timestamp = { .now },
        freeSpace: @escaping @Sendable (String) -> Int64? = DatabaseDisk.freeSpace
    ) {
        self.connection = connection
        self.limits = limits
        self.clock = clock
        self.freeSpace = freeSpace
    }

    /// Looks at everything.
    ///
    /// - Throws: `PostgresError` where the database went away; what is refused, missing or too slow is not thrown.
    /// - Returns: What was seen.
    package func examine() async throws(PostgresError) -> Diagnosis {
        var diagnosis = Diagnosis()
        // What follows is about the rows of a schema that may not be there.
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

    /// Looks at one subject; where that can't be, it is a finding, with the reason.
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

    /// Runs a statement and reads its rows.
    func rows<Value: Sendable>(
        _ sql: SQL,
        _ decode: @Sendable (inout PostgresRow) throws(PostgresError) -> Value
    ) async throws(PostgresError) -> [Value] {
        try await connection.run { connection throws(PostgresError) in try connection.run(sql).map(decode) }
    }

    /// Compares the schema with this program's.
    private func schema(_ diagnosis: inout Diagnosis) async throws(PostgresError) -> SchemaState? {
        let state: SchemaState
        do throws(MigrationError) {
            state = try await Migrator().state(connection)
        } catch {
            guard case .database(let cause, _) = error else {
                diagnosis.find(.schemaDiffers, "\(error)", fix: "upstream-worker migrate status")
                return nil
            }
            throw cause
        }
        if let problem = state.problem {
            diagnosis.find(.schemaDiffers, problem, fix: "upstream-worker migrate status")
        }
        return state
    }
}

extension Diagnosis {
    mutating func find(_ name: FindingName, _ text: String, fix: String) {
        findings.append(Finding(name, text, fix: fix))
    }

    mutating func note(_ name: String, _ value: String) { facts.append(Fact(name: name, value: value)) }

    mutating func skip(_ subject: String, _ reason: String) {
        unseen.append(Unseen(subject: subject, reason: reason))
    }
}

/// Amounts as findings say them.
enum Said {
    /// `1 worker`, `3 workers`.
    static func count(_ number: some BinaryInteger, _ noun: String, plural: String? = nil) -> String {
        number == 1 ? "1 \(noun)" : "\(Amount.count(number)) \(plural ?? noun + "s")"
    }

    /// A length of time.
    static func time(_ seconds: Double) -> String { Amount.time(seconds) }

    /// Some names, and how many more there are.
    static func names(_ names: [String], most: Int = 5) -> String {
        names.prefix(most).joined(separator: ", ") + (names.count > most ? " and \(names.count - most) more" : "")
    }
}
