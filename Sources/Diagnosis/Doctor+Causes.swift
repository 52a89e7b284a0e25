import MessageStore
import Postgres
import Vocabulary

/// Checks what keeps a worker from storing although the database answers: rights, locks, connection limits.
extension Doctor {
    private struct Locker: Sendable {
        var pid: Int64
        var user: String
        var application: String
        var tables: String?
        var sessions: Int64
        var wait: Double
        var transaction: Double?

        var title: String { "session \(pid) (\(user)\(application.isEmpty ? "" : ", \(application)"))" }
    }

    /// Sessions that others have waited for, or that block writers.
    func locks(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let lockers = try await rows(DoctorStatements.locks) { row throws(PostgresError) in
            Locker(
                pid: try row.next(),
                user: try row.next(),
                application: try row.next(),
                tables: try row.next(),
                sessions: try row.next(),
                wait: try row.next(),
                transaction: try row.next()
            )
        }
        for locker in lockers {
            let isLong = locker.tables != nil && (locker.transaction ?? 0) >= limits.lockHeld.inSeconds
            guard isLong || locker.sessions > 0 && locker.wait >= limits.lockWait.inSeconds else { continue }
            let what = locker.tables.map { "a lock on \($0) that keeps writers out" } ?? "a lock that a worker needs"
            let length = locker.transaction.map { ", in a transaction of \(Said.time($0))" } ?? ""
            let one = locker.sessions == 1
            let waits =
                locker.sessions == 0
                ? ""
                : "; \(Said.count(locker.sessions, "session")) \(one ? "waits" : "wait") for it, the first for "
                    + Said.time(locker.wait)
            diagnosis.find(
                .lockHeld,
                "\(locker.title) holds \(what)\(length)\(waits)",
                fix:
                    "end it, unless it is a migration at work: SELECT pg_terminate_backend(\(locker.pid)); workers go on "
                    + "by themselves"
            )
        }
    }

    /// Rights that the workers' roles lack, as `check --connect` finds them.
    func rights(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let roles = try await rows(DoctorStatements.workerRoles) { row throws(PostgresError) in
            try row.next(String.self)
        }
        for role in roles {
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
        typealias Limit = (kind: String, name: String, most: Int64, used: Int64)
        let found = try await rows(DoctorStatements.connectionLimits) { row throws(PostgresError) -> Limit in
            (try row.next(), try row.next(), try row.next(), try row.next())
        }
        for limit in found where Double(limit.used) >= Double(limit.most) * limits.connections {
            diagnosis.find(
                .connectionsNearlyUsed,
                "the \(limit.kind) \(limit.name) has \(limit.used) of the \(Said.count(limit.most, "session")) that its "
                    + "connection limit allows: workers and commands may be refused",
                fix: "ALTER \(limit.kind.uppercased()) \"\(limit.name)\" CONNECTION LIMIT -1"
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
