import Postgres
import Vocabulary

/// Checks standbys, and what keeps vacuum from removing dead rows.
extension Doctor {
    /// Sessions and prepared transactions that have been open for long.
    func sessions(_ diagnosis: inout Diagnosis, seesAll: Bool) async throws(PostgresError) {
        if !seesAll {
            diagnosis.skip(
                "how long other roles' sessions and standbys wait",
                "only their snapshots' age in transactions: GRANT pg_read_all_stats to this role to see more"
            )
        }
        typealias Holder = (Int64, String, String, String, Int64, Double?, Double?)
        let holders = try await rows(DoctorStatements.sessions, as: Holder.self)
        for (pid, user, application, state, age, transaction, idle) in holders {
            let title = Said.session(pid, user, application)
            let fix = "end it: SELECT pg_terminate_backend(\(pid)), and mend the program that leaves it open"
            if state.hasPrefix("idle in transaction"), let idle, idle >= limits.idle.inSeconds {
                diagnosis.find(
                    .idleInTransaction,
                    "\(title) has been idle inside a transaction for \(Amount.time(idle)): it keeps its locks, and "
                        + "may keep vacuum from removing dead rows",
                    fix: fix + "; idle_in_transaction_session_timeout ends such sessions by itself"
                )
            } else if let length = transaction, length >= limits.transaction.inSeconds {
                diagnosis.find(
                    .transactionOld,
                    "\(title) has been in one transaction for \(Amount.time(length)): dead rows since then stay",
                    fix: fix
                )
            } else if transaction == nil, age > limits.snapshotAge {
                diagnosis.find(
                    .transactionOld,
                    "\(title) holds a snapshot \(Amount.count(age)) transactions old: dead rows stay",
                    fix: fix
                )
            }
        }
        let prepared = try await rows(DoctorStatements.prepared, as: (String, String, Double).self)
        for (name, owner, age) in prepared where age >= limits.prepared.inSeconds {
            diagnosis.find(
                .preparedTransaction,
                "the prepared transaction '\(name)' of \(owner) has waited for \(Amount.time(age)): it keeps its locks and "
                    + "dead rows, over restarts too",
                fix: "ROLLBACK PREPARED '\(name)', or COMMIT PREPARED, whichever its coordinator decided"
            )
        }
    }

    /// Replication slots that nobody reads, or that hold old rows.
    func slots(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let slots = try await rows(DoctorStatements.slots, as: (String, Bool, String, Int64, Int64).self)
        for (name, isActive, status, age, bytes) in slots
        where !isActive || bytes >= limits.walBytes || status == "lost" {
            let state = isActive ? "is read" : "is read by nobody"
            let old = age > 0 ? " and the dead rows of \(Amount.count(age)) transactions" : ""
            let lost = status == "lost" ? ", and has lost what its reader needs" : ""
            diagnosis.find(
                .slotInactive,
                "the replication slot '\(name)' \(state) and keeps \(Amount.bytes(bytes)) of write-ahead log\(old)\(lost)",
                fix:
                    "start its reader, or SELECT pg_drop_replication_slot('\(name)'); max_slot_wal_keep_size bounds what "
                    + "a slot keeps"
            )
        }
    }

    /// Standbys that are missing, lag, or hold old rows; and commits that wait for them.
    func standbys(_ diagnosis: inout Diagnosis, seesAll: Bool) async throws(PostgresError) {
        typealias Standby = (String, String, Int64, Double?, Int64?)
        let standbys = try await rows(DoctorStatements.standbys, as: Standby.self)
        let names = try await rows(DoctorStatements.standbyNames, as: String.self).first ?? ""
        let isFollowed = seesAll ? standbys.contains { ["sync", "quorum"].contains($0.1) } : !standbys.isEmpty
        if !names.isEmpty, !isFollowed {
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
        for (name, _, age, lag, bytes) in standbys {
            let (lag, bytes) = (lag ?? 0, bytes ?? 0)
            if lag >= limits.lag.inSeconds || bytes >= limits.walBytes {
                diagnosis.find(
                    .standbyLag,
                    "the standby '\(name)' is \(Amount.time(lag)) and \(Amount.bytes(bytes)) behind",
                    fix: "look at its disk and network, and at queries there that replay waits for "
                        + "(max_standby_streaming_delay)"
                )
            }
            if age > limits.snapshotAge {
                diagnosis.find(
                    .standbyHoldsRows,
                    "queries on the standby '\(name)' hold dead rows of \(Amount.count(age)) transactions here "
                        + "(hot_standby_feedback)",
                    fix: "end long queries on the standby, or turn hot_standby_feedback off there"
                )
            }
        }
        let waits = try await rows(DoctorStatements.standbyWaits, as: (Int64, Double).self)
        for (count, longest) in waits where count > 0 && longest >= 1 {
            let verb = count == 1 ? "waits" : "wait"
            diagnosis.find(
                .commitsWaiting,
                "\(Amount.counted(count, "commit")) \(verb) for a standby, the first for \(Amount.time(longest))",
                fix: "look at the standby: its disk, its network, pg_stat_replication here"
            )
        }
    }
}
