import DatabaseSupport
import Diagnosis
import Foundation
import LocalDatabase
import MessageStore
import Postgres
import Processes
import Synchronization
import Testing

/// Each fault is made on a real server, doctor names it alone, what its fix says is done, and the finding is gone.
@Suite("doctor: a table of faults and what it says of them", .serialized, .timeLimit(.minutes(8)))
struct DoctorFaultTests {
    private static let cluster = Result {
        var options = LocalCluster.Options()
        options.fsync = false
        options.isTemporary = true
        options.configuration = ["max_prepared_transactions = 5", "wal_level = logical"]
        return try LocalCluster.start(in: URL(filePath: "/tmp/upstream-faults-\(getpid())"), options)
    }

    /// A database with the roles of roles.sql, whose one worker works as `faults_worker`.
    final class Stage: Sendable {
        let fixture: DoctorFixture
        private let others = Mutex<[PostgresConnection]>([])
        private let readers = Mutex<[ChildProcess]>([])

        init() async throws {
            fixture = try await DoctorFixture(on: try DoctorFaultTests.cluster.get())
            try await run(try DeployedRoles.script())
            try await run(
                """
                DO $$ BEGIN
                    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'faults_worker') THEN
                        CREATE ROLE faults_worker LOGIN IN ROLE upstream_worker;
                    END IF;
                END $$;
                UPDATE upstream.workers SET role = 'faults_worker'
                """
            )
        }

        func run(_ sql: String) async throws { try await fixture.database.script(sql) }

        /// Does what a fix says, one statement after the other, for some must not be in a transaction.
        func apply(_ statements: String) async throws {
            for statement in statements.split(separator: ";") { try await run(String(statement)) }
        }

        /// Another session, which has run this and stays.
        @discardableResult
        func session(as role: String? = nil, _ sql: String) async throws -> PostgresConnection {
            let url = fixture.database.url.replacingOccurrences(of: "user=upstream", with: "user=\(role ?? "upstream")")
            let connection = try await PostgresConnection.open(PostgresSettings(url: url))
            others.withLock { $0.append(connection) }
            try await connection.run { connection throws(PostgresError) in try connection.script(sql) }
            return connection
        }

        /// Bounds what slots may keep.
        func limitSlots(_ size: String) async throws {
            try await run("ALTER SYSTEM SET max_slot_wal_keep_size = '\(size)'")
            try await run("SELECT pg_reload_conf()")
            try await fixture.database.waitUntil("SELECT current_setting('max_slot_wal_keep_size') = '\(size)'")
        }

        /// Fills files of the write-ahead log, and removes those that nobody needs.
        func writeLog(segments: Int) async throws {
            for _ in 0..<segments {
                try await run("SELECT pg_logical_emit_message(false, 'test', ''); SELECT pg_switch_wal()")
            }
            try await run("CHECKPOINT")
        }

        /// Reads a slot by a program that stops reading at once, and stays.
        func read(_ slot: String) async throws {
            let command = [
                "/usr/bin/pg_recvlogical", "--dbname", fixture.database.url, "--slot", slot, "--start", "--file", "-",
            ]
            let reader = try ChildProcess(ChildProgram(command))
            readers.withLock { $0.append(reader) }
            try await fixture.database.waitUntil("SELECT bool_and(active) FROM pg_replication_slots")
            reader.send(SIGSTOP)
        }

        func endReaders() async throws {
            for reader in readers.withLock({ $0 }) {
                reader.kill()
                _ = reader.wait()
            }
            try await fixture.database.waitUntil("SELECT NOT bool_or(active) FROM pg_replication_slots")
        }

        func end() async { for connection in others.withLock({ $0 }) { await connection.close() } }
    }

    /// A row of the table.
    struct Fault: Sendable, CustomTestStringConvertible {
        /// The finding.
        var name: String
        /// How its text begins.
        var text: String
        /// Findings that come with it.
        var others: Set<String> = []
        /// What is changed of the usual limits.
        var limits: @Sendable (inout Doctor.Limits) -> Void = { _ in }
        /// Makes the fault.
        var make: @Sendable (Stage) async throws -> Void
        /// The part of the fix that is done as it stands.
        var statement: String
        /// What else the fix says.
        var mend: @Sendable (Stage) async throws -> Void = { _ in }

        var testDescription: String { "\(name): \(text)" }
    }

    @Test("a fault, its finding, its fix", arguments: faults)
    func finds(_ fault: Fault) async throws {
        let stage = try await Stage()
        var limits = DoctorFixture.limits
        fault.limits(&limits)
        try await fault.make(stage)
        let diagnosis = try await stage.fixture.examine(limits)
        let finding = try #require(diagnosis.finding(fault.name), "\(diagnosis.findings) \(diagnosis.unseen)")
        #expect(finding.text.hasPrefix(fault.text), "\(finding.text)")
        #expect(try await Set(stage.fixture.names(limits)) == fault.others.union([fault.name]))
        #expect(!finding.fix.contains("restart"), "\(finding.fix)")
        let statement = try #require(finding.fix.firstMatch(of: try Regex(fault.statement)), "\(finding.fix)")
        try await stage.apply(String(finding.fix[statement.range]))
        try await fault.mend(stage)
        try await stage.fixture.database.waitUntil(
            "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"
        )
        #expect(try await stage.fixture.names(limits) == [], "after the fix")
        await stage.end()
    }

    @Test("the session that holds a lock is named to roles that see little of others'")
    func lockIsNamed() async throws {
        let stage = try await Stage()
        let holder = try await stage.session("BEGIN; LOCK TABLE upstream.messages IN SHARE MODE")
        let pid = try await holder.run { connection throws(PostgresError) in
            try connection.query("SELECT pg_backend_pid()::int8").first { row throws(PostgresError) in
                try row.next(Int64.self)
            }
        }
        let writer = try await stage.session("SET lock_timeout = 0")
        let waiting = Task {
            try? await writer.run { connection throws(PostgresError) in
                try connection.script(DoctorFixture.messages(1, from: "now()"))
            }
        }
        try await stage.fixture.database.waitUntil(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND waitstart < now() - interval '100 ms')"
        )
        var limits = DoctorFixture.limits
        limits.lockWait = .milliseconds(100)
        let finding = try await stage.fixture.examine(limits, as: "faults_worker").finding("lock-held")
        let text = try #require(finding?.text)
        #expect(
            text.hasPrefix("session \(pid ?? 0) (upstream, upstream-worker) holds a lock on upstream.messages"),
            "\(text)"
        )
        #expect(text.contains("; 1 session waits for it, the first for "), "\(text)")
        await holder.close()
        _ = await waiting.value
        await stage.end()
    }

    @Test("a disk that is full, or nearly, is named whatever it holds; and one that the last hour's pace fills")
    func disk() async throws {
        let stage = try await Stage()
        let limits = Doctor.Limits()
        func found(_ free: Int64) async throws -> Finding? {
            let findings = try await stage.fixture.examine(limits, free: free).findings
            return findings.first { $0.name.rawValue.hasPrefix("disk-") }
        }
        let full = try #require(try await found(0))
        #expect(full.name == .diskNearlyFull && full.text.hasPrefix("the disk is full: 0 B are free at /"), "\(full)")
        #expect(try await found(1 << 29)?.text.hasPrefix("the disk is nearly full: 512 MiB are free") == true)
        #expect(try await found(2 << 30)?.name == .diskFilling)
        #expect(try await found(1 << 40) == nil)
        // Nothing for days, then much within an hour.
        try await stage.run(DoctorFixture.messages(20_000, from: "now() - interval '1 hour'"))
        try await stage.run("ANALYZE upstream.messages")
        let bytes = try await stage.fixture.database.integer(
            "SELECT sum(pg_total_relation_size(relation))::int8 FROM upstream.partitions()"
        )
        var hourly = DoctorFixture.limits
        hourly.diskHours = .seconds(86_400)
        let free = try #require(bytes) * 5
        let finding = try await stage.fixture.examine(hourly, free: free).finding("disk-nearly-full")
        #expect(finding?.text.contains("at the pace of the last hour") == true, "\(String(describing: finding))")
        #expect(try await stage.fixture.examine(hourly, free: free * 20).finding("disk-nearly-full") == nil)
        await stage.end()
    }

    @Test("within a minute of its start neither a worker nor the server is found wrong for what takes a moment")
    func starting() async throws {
        let stage = try await Stage()
        var limits = DoctorFixture.limits
        limits.settling = .seconds(60)
        func start(_ age: String) async throws {
            try await stage.run(
                """
                DELETE FROM upstream.workers; \(HealthySystem.worker(inFlight: 3, bound: 0));
                UPDATE upstream.workers SET started_at = heartbeat_at - interval '\(age)'
                """
            )
        }
        try await start("6 s")
        #expect(try await stage.fixture.names(limits) == [])
        try await start("61 s")
        #expect(try await Set(stage.fixture.names(limits)) == ["sender-unbound", "commits-stalled"])
        // One that has been up for longer, and one that replaces it.
        try await stage.run(HealthySystem.worker("host:2", bound: 0))
        #expect(try await stage.fixture.names(limits).contains("sender-unbound"))
        // The server is younger than an hour: what it says is that nobody has written for a minute.
        limits.settling = .seconds(3_600)
        try await stage.run("UPDATE upstream.workers SET heartbeat_at = now() - interval '1 minute'")
        #expect(try await stage.fixture.names(limits) == [])
        limits.settling = .zero
        #expect(try await Set(stage.fixture.names(limits)) == ["no-workers", "worker-silent"])
        // A worker that stopped in order leaves no row, and is missed at once.
        limits.settling = .seconds(3_600)
        try await stage.run("DELETE FROM upstream.workers")
        #expect(try await stage.fixture.names(limits) == ["no-workers"])
        await stage.end()
    }

    @Test("a handler that answers every attempt with retry is found, and not once one succeeds, or its breaker says it")
    func neverDone() async throws {
        let stage = try await Stage()
        func handler(_ failed: Int, _ circuit: String = "closed") async throws -> [String] {
            try await stage.run(
                """
                UPDATE upstream.workers SET handlers = '[{"handler": "legacy", "circuit": "\(circuit)", "next_probe": null,
                    "paused": false, "running": 0, "waiting": 0, "attempts": 1, "failed": 1, "failed_in_row": \(failed)}]'
                """
            )
            return try await stage.fixture.names()
        }
        #expect(try await handler(40) == ["handler-never-done"])
        let finding = try await stage.fixture.examine().finding("handler-never-done")
        #expect(finding?.text.hasPrefix("handler legacy has failed its last 40 attempts in worker host:1") == true)
        #expect(finding?.fix.hasPrefix("upstream-worker deliveries list --handler legacy") == true)
        #expect(try await handler(19) == [])
        try await stage.run("INSERT INTO upstream.handlers (name) VALUES ('legacy')")
        #expect(try await handler(40, "open") == ["handler-failing"])
        await stage.end()
    }

    @Test("every index and trigger of a migrated database is known with its table, and no others")
    func objects() async throws {
        let database = try await DoctorFixture(on: try Self.cluster.get()).database
        let indexes = try await database.texts(
            """
            SELECT r.relname || ' ' || c.relname FROM pg_index AS i
            JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_class AS r ON r.oid = i.indrelid
            WHERE r.relnamespace = 'upstream'::regnamespace AND NOT r.relispartition
                AND r.relname <> 'schema_migrations' -- the migrator's own
            """
        )
        let triggers = try await database.texts(
            """
            SELECT r.relname || ' ' || t.tgname FROM pg_trigger AS t JOIN pg_class AS r ON r.oid = t.tgrelid
            WHERE r.relnamespace = 'upstream'::regnamespace AND NOT t.tgisinternal AND NOT r.relispartition
            """
        )
        func known(_ kind: SchemaObject.Kind) -> [String] {
            SchemaObject.all.filter { $0.kind == kind }.map { "\($0.table) \($0.name)" }.sorted()
        }
        #expect(known(.index) == indexes.sorted())
        #expect(known(.trigger) == triggers.sorted())
        #expect(indexes.count > 40 && triggers.count > 1)
    }

    @Test("connections of the server: more are allowed after what the fix says")
    func serverConnections() async throws {
        var options = LocalCluster.Options()
        options.fsync = false
        options.isTemporary = true
        options.configuration = ["max_connections = 8", "superuser_reserved_connections = 1"]
        let cluster = try LocalCluster.start(in: URL(filePath: "/tmp/upstream-few-\(getpid())"), options)
        let fixture = try await DoctorFixture(on: cluster)
        var held: [PostgresConnection] = []
        for _ in 0..<5 { held.append(try await PostgresConnection.open(fixture.database.settings)) }
        let finding = try #require(try await fixture.examine().finding("connections-nearly-used"))
        #expect(finding.text.hasPrefix("7 of 7 connections are used"), "\(finding.text)")
        let fix = try #require(finding.fix.firstMatch(of: #/ALTER SYSTEM SET max_connections = \d+/#))
        try await fixture.database.script(String(fix.0))
        for connection in held + [fixture.database.admin] { await connection.close() }
        cluster.stop()
        try cluster.restart()
        held = []
        for _ in 0..<6 { held.append(try await PostgresConnection.open(fixture.database.settings)) }
        #expect(try await fixture.examine().finding("connections-nearly-used") == nil)
        for connection in held { await connection.close() }
        cluster.stop()
    }
}
