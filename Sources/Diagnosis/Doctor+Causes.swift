import MessageStore
import Postgres
import Vocabulary

/// Checks what keeps a worker from storing although the database answers: rights, locks, connection limits.
extension Doctor {
    /// Sessions that others have waited for, or that block writers.
    func locks(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        typealias Locker = (Int64, String, String, String?, Int64, Double, Double?)
        let lockers = try await rows(DoctorStatements.locks, as: Locker.self)
        for (pid, user, application, tables, sessions, wait, transaction) in lockers {
            let isLong = tables != nil && (transaction ?? 0) >= limits.lockHeld.inSeconds
            guard isLong || sessions > 0 && wait >= limits.lockWait.inSeconds else { continue }
            let what = tables.map { "a lock on \($0) that keeps writers out" } ?? "a lock that a worker needs"
            let length = transaction.map { ", in a transaction of \(Amount.time($0))" } ?? ""
            let verb = sessions == 1 ? "waits" : "wait"
            let waiting = "; \(Amount.counted(sessions, "session")) \(verb) for it, the first for \(Amount.time(wait))"
            diagnosis.find(
                .lockHeld,
                "\(Said.session(pid, user, application)) holds \(what)\(length)\(sessions == 0 ? "" : waiting)",
                fix: "end it, unless it is a migration at work: SELECT pg_terminate_backend(\(pid)); workers go on by "
                    + "themselves"
            )
        }
    }

    /// Rights that the workers' roles lack, as `check --connect` finds them.
    func rights(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        for role in try await rows(DoctorStatements.workerRoles, as: String.self) {
            let missing = try await WorkerRight.missing(on: connection, of: role)
            guard !missing.isEmpty else { continue }
            diagnosis.find(
                .rightsMissing,
                "the workers' role \(role) lacks \(Said.names(missing)): what needs that fails (SQLSTATE 42501), and no "
                    + "message that needs it is acked",
                fix: "as the schema's owner run \(RolesScript.path) again, and GRANT upstream_worker TO \"\(role)\""
            )
        }
    }

    /// The connection limits of roles and of the database; ``server(_:)`` checks the server's.
    func connectionLimits(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let found = try await rows(DoctorStatements.connectionLimits, as: (String, String, Int64, Int64).self)
        for (kind, name, most, used) in found where Double(used) >= Double(most) * limits.connections {
            diagnosis.find(
                .connectionsNearlyUsed,
                "the \(kind) \(name) has \(used) of the \(Amount.counted(most, "session")) that its connection limit allows: "
                    + "workers and commands may be refused",
                fix: "ALTER \(kind.uppercased()) \"\(name)\" CONNECTION LIMIT -1"
            )
        }
    }

    /// Dropped indexes and triggers, and default partitions that somebody created.
    func drift(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let drift = try await SchemaDrift.ask(connection)
        for object in drift.missing {
            let isIndex = object.kind == .index
            diagnosis.find(
                isIndex ? .indexMissing : .triggerMissing,
                "the \(object.kind.rawValue) \(object.name) of upstream.\(object.table) is missing: "
                    + (isIndex ? "what it served reads the whole table" : "what it guarded against is possible"),
                fix: object.statement(isPartitioned: drift.partitioned.contains(object.table))
            )
        }
        for object in drift.disabled {
            diagnosis.find(
                .triggerMissing,
                "the trigger \(object.name) of upstream.\(object.table) is disabled: what it guarded against is possible",
                fix: "ALTER TABLE upstream.\(object.table) ENABLE TRIGGER \(object.name)"
            )
        }
        if let name = drift.defaultPartition {
            diagnosis.find(
                .defaultPartition,
                "upstream.messages has a default partition, upstream.\(name): retention never drops what lies there, and a "
                    + "day of which it holds messages can't get its partition",
                fix: "ALTER TABLE upstream.messages DETACH PARTITION upstream.\(name); if it has rows, upstream-worker "
                    + "partitions run, then INSERT INTO upstream.messages SELECT * FROM upstream.\(name); DROP TABLE "
                    + "upstream.\(name)"
            )
        }
    }
}
