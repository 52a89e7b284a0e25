import DatabaseSupport
import Diagnosis
import Foundation
import LocalDatabase
import Postgres
import Testing
import Vocabulary

/// Findings about the server itself: its settings, old transactions, and standbys.
///
/// One private server, one test at a time.
@Suite("doctor: what is wrong with the server is found", .serialized, .timeLimit(.minutes(8)))
struct DoctorServerTests {
    private static func start(_ name: String) throws -> LocalCluster {
        var options = LocalCluster.Options()
        options.fsync = false
        options.isTemporary = true
        options.configuration = [
            "max_prepared_transactions = 5", "autovacuum_freeze_max_age = 100000", "wal_receiver_status_interval = 1s",
        ]
        return try LocalCluster.start(in: URL(filePath: "/tmp/upstream-\(name)-tests-\(getpid())"), options)
    }

    private static let cluster = Result { try start("doctor") }

    private func fixture() async throws -> DoctorFixture { try await DoctorFixture(on: try Self.cluster.get()) }

    /// Sets a setting of the server, and waits until a new session sees it.
    private func set(_ name: String, _ value: String?, _ fixture: DoctorFixture) async throws {
        // One statement each: ALTER SYSTEM can't be in a transaction.
        try await fixture.database.script(
            value.map { "ALTER SYSTEM SET \(name) = \($0)" } ?? "ALTER SYSTEM RESET \(name)"
        )
        try await fixture.database.script("SELECT pg_reload_conf()")
        let shown = value?.replacingOccurrences(of: "'", with: "") ?? ""
        try await fixture.database.waitUntil("SELECT \(value == nil) OR current_setting('\(name)') = '\(shown)'")
    }

    @Test("fsync, full_page_writes and autovacuum that are off", .timeLimit(.minutes(10)))
    func settings() async throws {
        let fixture = try await fixture()
        #expect(try await fixture.examine().finding("fsync-off")?.severity == .critical)
        #expect(try await fixture.names() == [])
        try await set("full_page_writes", "off", fixture)
        #expect(try await fixture.names() == ["full-page-writes-off"])
        try await set("full_page_writes", "on", fixture)
        try await set("autovacuum", "off", fixture)
        #expect(try await fixture.names() == ["autovacuum-off"])
        try await set("autovacuum", "on", fixture)
        #expect(try await fixture.names() == [])
    }

    @Test("a prepared transaction, an abandoned slot, and transaction ids that grow old behind it")
    func oldRows() async throws {
        let fixture = try await fixture()
        var limits = DoctorFixture.limits
        limits.prepared = .zero
        let other = try await PostgresConnection.open(fixture.database.settings)
        try await other.run { connection throws(PostgresError) in
            try connection.script("BEGIN; INSERT INTO upstream.handlers (name) VALUES ('x')")
            try connection.script("PREPARE TRANSACTION 'left'")
        }
        await other.close()
        #expect(try await fixture.names() == [])
        // Ids of multixacts that are older than the limit of others, and not than their own; then far beyond both.
        let first = try #require(
            try await fixture.database.text("SELECT max(datminmxid::text::bigint)::text FROM pg_database")
        )
        for (age, isFound) in [(160_000, false), (700_000_000, true)] {
            try await fixture.database.script(
                "UPDATE pg_database SET datminmxid = '\(1 << 32 - age)' WHERE datname = current_database()"
            )
            #expect(try await (fixture.examine().finding("transaction-ids-old") != nil) == isFound, "\(age)")
        }
        try await fixture.database.script(
            "UPDATE pg_database SET datminmxid = '\(first)' WHERE datname = current_database()"
        )
        let left = try await fixture.examine(limits).finding("prepared-transaction")
        #expect(left?.text.hasPrefix("the prepared transaction 'left' of upstream has waited") == true)
        try await fixture.database.script("SELECT pg_create_physical_replication_slot('left', true)")
        let slot = try await fixture.examine().finding("replication-slot-inactive")
        #expect(slot?.text.hasPrefix("the replication slot 'left' is read by nobody and keeps") == true)
        try await fixture.database.script("SELECT pg_drop_replication_slot('left')")
        // Each subtransaction that writes takes an id; the prepared one keeps vacuum from moving on.
        try await fixture.database.script(
            """
            CREATE TEMP TABLE burnt (n int);
            DO $$ BEGIN
                FOR i IN 1..160000 LOOP
                    BEGIN INSERT INTO burnt VALUES (i); EXCEPTION WHEN division_by_zero THEN NULL; END;
                END LOOP;
            END $$
            """
        )
        let old = try await fixture.examine().finding("transaction-ids-old")
        #expect(old?.text.contains("transactions old, of 2,147,483,648") == true)
        try await fixture.database.script("ROLLBACK PREPARED 'left'")
    }

    @Test("a synchronous standby that is missing, and the commits that wait for it")
    func missingStandby() async throws {
        let fixture = try await fixture()
        #expect(try await fixture.examine().finding("no-standby")?.severity == .note)
        try await set("synchronous_standby_names", "'nobody'", fixture)
        let writer = try await PostgresConnection.open(fixture.database.settings)
        let commit = Task {
            try await writer.run { connection throws(PostgresError) in
                try connection.script("INSERT INTO upstream.handlers (name) VALUES ('waits')")
            }
        }
        try await fixture.database.waitUntil(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query_start < now() - interval '1 s')"
        )
        let diagnosis = try await fixture.examine()
        #expect(diagnosis.finding("standby-missing")?.text.contains("'nobody'") == true)
        #expect(
            diagnosis.finding("commits-waiting")?.text.hasPrefix("1 commit waits for a standby, the first for") == true
        )
        #expect(diagnosis.finding("no-standby") == nil)
        try await set("synchronous_standby_names", "''", fixture)
        _ = try? await commit.value
        await writer.close()
        #expect(try await fixture.examine().finding("standby-missing") == nil)
    }

    @Test("where console and lists read: far behind and down are findings, a lag that is not told is none")
    func reads() async throws {
        let fixture = try await fixture()
        func examine(_ reads: Result<ReadLag, PostgresError>) async throws -> Diagnosis {
            try await Doctor(fixture.database.admin, reads: reads, limits: DoctorFixture.limits).examine()
        }
        let late = try await examine(.success(ReadLag(isStandby: true, seconds: 61)))
        #expect(late.finding("reads-behind")?.text.hasSuffix("a standby that is 61 s behind") == true)
        #expect(late.facts.contains { $0.name == "reads" && $0.value == "read from a standby, 61 s behind" })
        for lag in [60, nil] as [Double?] {
            let found = try await examine(.success(ReadLag(isStandby: true, seconds: lag)))
            #expect(found.finding("reads-behind") == nil && found.finding("reads-down") == nil)
        }
        let down = try await examine(.failure(PostgresError(.connection, "refused")))
        #expect(down.finding("reads-down")?.severity == .warning)
        #expect(try await fixture.examine().facts.allSatisfy { $0.name != "reads" })
    }

    @Test("a standby that is behind, and one whose queries hold old rows")
    func standby() async throws {
        let fixture = try await fixture()
        var options = LocalCluster.Options()
        options.isTemporary = true
        let standby = try LocalCluster.startStandby(
            of: try Self.cluster.get(),
            in: URL(filePath: "/tmp/upstream-doctor-standby-\(getpid())"),
            options
        )
        let away = try await PostgresConnection.open(
            PostgresSettings(
                url: fixture.database.url.replacingOccurrences(
                    of: try Self.cluster.get().socketFolder.path,
                    with: standby.socketFolder.path
                )
            )
        )
        try await away.run { connection throws(PostgresError) in
            try connection.script("ALTER SYSTEM SET hot_standby_feedback = on")
            try connection.script("SELECT pg_reload_conf()")
            try connection.script("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM upstream.handlers")
        }
        try await fixture.database.waitUntil(
            "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE backend_xmin IS NOT NULL)"
        )
        try await fixture.database.script("INSERT INTO upstream.handlers (name) VALUES ('a')")
        try await fixture.database.script("INSERT INTO upstream.handlers (name) VALUES ('b')")
        var limits = DoctorFixture.limits
        limits.snapshotAge = 0
        let held = try await fixture.examine(limits)
        #expect(held.finding("standby-holds-rows")?.fix.contains("hot_standby_feedback") == true, "\(held.findings)")
        #expect(held.finding("no-standby") == nil && held.finding("standby-lag") == nil)
        try await away.run { connection throws(PostgresError) in
            try connection.script("COMMIT")
            try connection.script("SELECT pg_wal_replay_pause()")
        }
        // No switch at the end: a standby that has got everything is not behind.
        try await fixture.database.script(DoctorFixture.messages(500, from: "now()"))
        limits = DoctorFixture.limits
        limits.walBytes = 100_000
        let late = try await fixture.examine(limits)
        #expect(late.finding("standby-lag")?.text.contains("behind") == true, "\(late.findings)")
        #expect(try await fixture.examine().finding("standby-lag") == nil)
        await away.close()
        standby.stop()
    }
}
