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

    /// Replication slots that nobody reads, or that keep much write-ahead log.
    func slots(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        typealias Slot = (String, Bool, String, Int64, Int64, Int64?)
        for (name, isActive, status, age, bytes, most) in try await rows(DoctorStatements.slots, as: Slot.self) {
            let share = most.map { Double(bytes) / Double(max(1, $0)) } ?? 0
            let isKeepingMuch = bytes >= limits.walBytes || share >= limits.walShare
            guard !isActive || isKeepingMuch || ["extended", "unreserved", "lost"].contains(status) else { continue }
            let slot = "the replication slot '\(name)' is read\(isActive ? "" : " by nobody")"
            let drop = "pg_drop_replication_slot('\(name)')"
            guard status != "lost" else {
                diagnosis.find(
                    .slotInactive,
                    "\(slot) and has lost write-ahead log that its reader needs: it kept more than max_slot_wal_keep_size",
                    fix: "drop it: SELECT \(drop), and set its reader up anew; what it missed is not sent again"
                )
                continue
            }
            let old = age > 0 ? " and the dead rows of \(Amount.count(age)) transactions" : ""
            let part = most == nil ? "" : ", \(Int(share * 100)) % of max_slot_wal_keep_size"
            let end = status == "unreserved" ? "; the next checkpoint may delete what its reader needs" : ""
            let bound = most == nil ? "; max_slot_wal_keep_size bounds what a slot keeps" : ""
            diagnosis.find(
                isActive ? .slotBehind : .slotInactive,
                "\(slot) and keeps \(Amount.bytes(bytes)) of write-ahead log\(part)\(old)\(end)",
                fix: (isActive
                    ? "see what slows its reader: SELECT * FROM pg_stat_replication"
                    : "start its reader, or SELECT \(drop)") + bound
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
