import Postgres
import Vocabulary

extension Doctor {
    /// A row of ``DoctorStatements/server``.
    private struct Server {
        var time: Timestamp
        var version: String
        var isStandby: Bool
        var isReadOnly: Bool?
        var fsync: Bool
        var fullPageWrites: Bool
        var synchronousCommit: String?
        var vacuums: Bool
        var connections: Int64
        var used: Int64
        var transactionAge: Int64
        var freezeAge: Int64
        var seesAll: Bool
    }

    /// Checks the server and its settings; returns whether the role sees other roles' sessions.
    func server(_ diagnosis: inout Diagnosis) async throws(PostgresError) -> Bool {
        let (asked, server, answered) = try await connection.run { [clock] connection throws(PostgresError) in
            (clock(), try connection.run(DoctorStatements.server).onlyRow(Server.init), clock())
        }
        diagnosis.note("PostgreSQL", server.version)
        diagnosis.note("connections", "\(server.used) of \(server.connections)")
        settings(server, &diagnosis)
        if Double(server.used) / Double(max(1, server.connections)) >= limits.connections {
            diagnosis.find(
                .connectionsNearlyUsed,
                "\(server.used) of \(server.connections) connections are used: workers and commands may be refused",
                fix:
                    "ALTER SYSTEM SET max_connections = \(server.connections * 2), and restart PostgreSQL; or put "
                    + "PgBouncer between. Who connects: SELECT usename, application_name, count(*) FROM "
                    + "pg_stat_activity GROUP BY 1, 2"
            )
        }
        // Autovacuum begins at the setting by itself, so half as much again means that it can't run or can't keep up.
        // The server refuses transactions shortly before 2^31.
        if server.transactionAge > min(server.freezeAge + server.freezeAge / 2, 1_500_000_000) {
            diagnosis.find(
                .transactionIDsOld,
                "the oldest transaction id is \(Amount.count(server.transactionAge)) transactions old, of 2,147,483,648: "
                    + "before that the server stops taking writes",
                fix: "end what holds old rows (the findings about transactions and slots), then: VACUUM FREEZE, in the "
                    + "database with the greatest age(datfrozenxid) of pg_database"
            )
        }
        // The database read its clock at some moment between the two.
        let ahead = asked > server.time ? asked - server.time : min(answered - server.time, .zero)
        if max(ahead, .zero - ahead) > limits.clock {
            let seconds = Amount.time(max(ahead, .zero - ahead).inSeconds)
            diagnosis.find(
                .clockDiffers,
                "this machine's clock is \(seconds) \(ahead > .zero ? "ahead of" : "behind") the database's",
                fix: "run an NTP client (systemd-timesyncd, chrony) on both machines; workers delete nothing while "
                    + "clocks differ by more than five minutes"
            )
        }
        return server.seesAll
    }

    private func settings(_ server: Server, _ diagnosis: inout Diagnosis) {
        if server.isReadOnly == true || server.isStandby {
            diagnosis.find(
                .databaseReadOnly,
                "the database takes no writes: nothing can be stored or acked over this address",
                fix: "point database.url at the primary (target_session_attrs=read-write with several hosts), or turn "
                    + "default_transaction_read_only off"
            )
        }
        if !server.fsync {
            diagnosis.find(
                .fsyncOff,
                "fsync is off: after a crash of the machine, acked messages are lost and the database may be damaged",
                fix: "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf()"
            )
        }
        if !server.fullPageWrites {
            diagnosis.find(
                .fullPageWritesOff,
                "full_page_writes is off: a page that a crash has torn can't be mended",
                fix: "ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf()"
            )
        }
        if let weak = server.synchronousCommit, !["on", "remote_apply"].contains(weak) {
            diagnosis.find(
                .synchronousCommitWeak,
                "synchronous_commit is \(weak) by default: workers raise it for messages; what "
                    + "others write to this database may be lost in a crash",
                fix: "nothing, for acks; else ALTER DATABASE … SET synchronous_commit = on"
            )
        }
        if !server.vacuums {
            diagnosis.find(
                .autovacuumOff,
                "autovacuum or track_counts is off: the queue's dead rows are never removed",
                fix: "ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf()"
            )
        }
    }

    /// Checks sequences, indexes, and dead rows.
    func tables(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let sequences = DoctorStatements.sequences(beyond: limits.sequence)
        for (name, share) in try await rows(sequences, as: (String, Double).self) {
            diagnosis.find(
                .sequenceNearlyUsed,
                "the sequence upstream.\(name) has used \(Int(share * 100)) % of its numbers",
                fix: "ALTER SEQUENCE upstream.\(name) AS bigint, or find who takes so many"
            )
        }
        for index in try await rows(DoctorStatements.invalidIndexes, as: String.self) {
            diagnosis.find(
                .indexInvalid,
                "the index upstream.\(index) is invalid: inserts keep it, and no query uses it",
                fix: "REINDEX INDEX CONCURRENTLY upstream.\(index), or drop it where its building was broken off"
            )
        }
        let deadRows = DoctorStatements.deadRows(beyond: limits.deadRows)
        for (table, living, dead) in try await rows(deadRows, as: (String, Int64, Int64).self) {
            diagnosis.find(
                .deadRows,
                "upstream.\(table) has \(Amount.count(dead)) dead rows beside \(Amount.count(living)) living ones",
                fix:
                    "end what holds old rows (the findings about transactions and slots); else VACUUM upstream.\(table)"
            )
        }
    }
}
