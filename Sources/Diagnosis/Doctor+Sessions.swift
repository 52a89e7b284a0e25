import Postgres
import Vocabulary

/// Checks standbys, and what keeps vacuum from removing dead rows.
extension Doctor {
    private struct Holder: Sendable {
        var pid: Int64
        var user: String
        var application: String
        var state: String
        var age: Int64
        var transaction: Double?
        var idle: Double?

        var title: String { "session \(pid) (\(user)\(application.isEmpty ? "" : ", \(application)"))" }
    }

    /// Sessions and prepared transactions that have been open for long.
    func sessions(_ diagnosis: inout Diagnosis, seesAll: Bool) async throws(PostgresError) {
        let holders = try await rows(DoctorStatements.sessions) { row throws(PostgresError) in
            Holder(
                pid: try row.next(),
                user: try row.next(),
                application: try row.next(),
                state: try row.next(),
                age: try row.next(),
                transaction: try row.next(),
                idle: try row.next()
            )
        }
        if !seesAll {
            diagnosis.skip(
                "how long other roles' sessions and standbys wait",
                "only their snapshots' age in transactions: GRANT pg_read_all_stats to this role to see more"
            )
        }
        for holder in holders {
            let fix = "end it: SELECT pg_terminate_backend(\(holder.pid)), and mend the program that leaves it open"
            if holder.state.hasPrefix("idle in transaction"), let idle = holder.idle, idle >= limits.idle.inSeconds {
                diagnosis.find(
                    .idleInTransaction,
                    "\(holder.title) has been idle inside a transaction for \(Said.time(idle)): it keeps its locks, and "
                        + "may keep vacuum from removing dead rows",
                    fix: fix + "; idle_in_transaction_session_timeout ends such sessions by itself"
                )
            } else if let length = holder.transaction, length >= limits.transaction.inSeconds {
                diagnosis.find(
                    .transactionOld,
                    "\(holder.title) has been in one transaction for \(Said.time(length)): dead rows since then stay",
                    fix: fix
                )
            } else if holder.transaction == nil, holder.age > limits.snapshotAge {
                diagnosis.find(
                    .transactionOld,
                    "\(holder.title) holds a snapshot \(Amount.count(holder.age)) transactions old: dead rows stay",
                    fix: fix
                )
            }
        }
        let prepared = try await rows(DoctorStatements.prepared) { row throws(PostgresError) in
            (try row.next(String.self), try row.next(String.self), try row.next(Double.self))
        }
        for (name, owner, age) in prepared where age >= limits.prepared.inSeconds {
            diagnosis.find(
                .preparedTransaction,
                "the prepared transaction '\(name)' of \(owner) has waited for \(Said.time(age)): it keeps its locks and "
                    + "dead rows, over restarts too",
                fix: "ROLLBACK PREPARED '\(name)', or COMMIT PREPARED, whichever its coordinator decided"
            )
        }
    }

    /// Replication slots that nobody reads, or that hold old rows.
    func slots(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        typealias Slot = (name: String, isActive: Bool, status: String, age: Int64, bytes: Int64)
        let slots = try await rows(DoctorStatements.slots) { row throws(PostgresError) -> Slot in
            (try row.next(), try row.next(), try row.next(), try row.next(), try row.next())
        }
        for slot in slots where !slot.isActive || slot.bytes >= limits.walBytes || slot.status == "lost" {
            let state = slot.isActive ? "is read" : "is read by nobody"
            let lost = slot.status == "lost" ? ", and has lost what its reader needs" : ""
            diagnosis.find(
                .slotInactive,
                "the replication slot '\(slot.name)' \(state) and keeps \(Amount.bytes(slot.bytes)) of write-ahead log"
                    + "\(slot.age > 0 ? " and the dead rows of \(Amount.count(slot.age)) transactions" : "")\(lost)",
                fix: "start its reader, or SELECT pg_drop_replication_slot('\(slot.name)'); max_slot_wal_keep_size "
                    + "bounds what a slot keeps"
            )
        }
    }

    private struct Standby: Sendable {
        var name: String
        var sync: String
        var age: Int64
        var lag: Double?
        var bytes: Int64?
    }

    /// Standbys that are missing, lag, or hold old rows; and commits that wait for them.
    func standbys(_ diagnosis: inout Diagnosis, seesAll: Bool) async throws(PostgresError) {
        let standbys = try await rows(DoctorStatements.standbys) { row throws(PostgresError) in
            Standby(
                name: try row.next(),
                sync: try row.next(),
                age: try row.next(),
                lag: try row.next(),
                bytes: try row.next()
            )
        }
        let names =
            try await rows(DoctorStatements.standbyNames) { row throws(PostgresError) in
                try row.next(String.self)
            }.first ?? ""
        let isMissing =
            !names.isEmpty
            && (seesAll ? !standbys.contains { ["sync", "quorum"].contains($0.sync) } : standbys.isEmpty)
        if isMissing {
            diagnosis.find(
                .standbyMissing,
                "commits wait for synchronous_standby_names = '\(names)', and no such standby is connected: nothing is "
                    + "acked",
                fix: "start the standby; or, giving up what its copy is worth, ALTER SYSTEM SET "
                    + "synchronous_standby_names = ''; SELECT pg_reload_conf()"
            )
        }
        if standbys.isEmpty, names.isEmpty {
            diagnosis.find(
                .noStandby,
                "no standby is connected: an ack survives a crash of this server, and not its loss",
                fix: "add a standby, synchronous if an ack has to survive a failover"
            )
        }
        for standby in standbys { judge(standby, &diagnosis) }
        let waits = try await rows(DoctorStatements.standbyWaits) { row throws(PostgresError) in
            (count: try row.next(Int64.self), longest: try row.next(Double.self))
        }
        if let first = waits.first, first.count > 0, first.longest >= 1 {
            diagnosis.find(
                .commitsWaiting,
                "\(Said.count(first.count, "commit")) \(first.count == 1 ? "waits" : "wait") for a standby, the first for "
                    + Said.time(first.longest),
                fix: "look at the standby: its disk, its network, pg_stat_replication here"
            )
        }
    }

    private func judge(_ standby: Standby, _ diagnosis: inout Diagnosis) {
        let lag = standby.lag ?? 0
        if lag >= limits.lag.inSeconds || standby.bytes ?? 0 >= limits.walBytes {
            diagnosis.find(
                .standbyLag,
                "the standby '\(standby.name)' is \(Said.time(lag)) and \(Amount.bytes(standby.bytes ?? 0)) behind",
                fix:
                    "look at its disk and network, and at queries there that replay waits for (max_standby_streaming_delay)"
            )
        }
        if standby.age > limits.snapshotAge {
            diagnosis.find(
                .standbyHoldsRows,
                "queries on the standby '\(standby.name)' hold dead rows of \(Amount.count(standby.age)) transactions here "
                    + "(hot_standby_feedback)",
                fix: "end long queries on the standby, or turn hot_standby_feedback off there"
            )
        }
    }
}
