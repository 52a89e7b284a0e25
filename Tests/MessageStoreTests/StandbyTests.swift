import Foundation
import Glibc
import Ingest
import IntegrationSupport
import LocalDatabase
import Logging
import MessageStore
import Postgres
import Telemetry
import Testing
import Vocabulary

/// G1 where the database replicates synchronously: nothing that leads to an ack goes by a standby that is away.
@Suite("commits and their standby", .serialized)
struct StandbyTests {
    /// A primary that waits for its standby, which can be taken away.
    private struct Pair {
        let primary: LocalCluster
        let standby: LocalCluster
        let fixture: StoreFixture
        let metrics = Metrics(senders: [], categories: [], handlers: [], version: "test")
        let output = MemoryLogOutput()
        let status: CommitStatus

        init() async throws {
            let root = "/tmp/upstream-store-standby-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
            var options = LocalCluster.Options()
            options.fsync = false
            options.isTemporary = true
            primary = try LocalCluster.start(in: URL(filePath: root + "-a"), options)
            fixture = try await StoreFixture(on: primary)
            standby = try LocalCluster.startStandby(of: primary, in: URL(filePath: root + "-b"), options)
            status = CommitStatus(
                metrics: metrics,
                logger: .lines(label: "test", level: .info, format: .json, output: output)
            )
            // Separately: the first can't stand in a transaction, which several statements at once would be.
            try await fixture.script("ALTER SYSTEM SET synchronous_standby_names = '*'")
            try await fixture.script("SELECT pg_reload_conf()")
            try await standbyStreams()
            // Commits wait from when the checkpointer has read the setting too, which it has before it does anything else.
            try await fixture.script("CHECKPOINT")
        }

        func standbyStreams() async throws {
            try await fixture.waitUntil(
                "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'"
            )
        }

        /// Waits until so many sessions wait for the standby.
        func waiting(_ count: Int = 1) async throws {
            try await fixture.waitUntil(
                "SELECT count(*) = \(count) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            )
        }

        func store(_ change: (inout PostgresSettings) -> Void = { _ in }) -> MessageStore {
            var settings = fixture.settings
            settings.probeAfter = 100
            change(&settings)
            return MessageStore(settings, senders: StoreFixture.senders, status: status)
        }

        func stop() {
            standby.stop()
            primary.stop()
        }
    }

    @Test("a commit waits for its standby past every limit of ours, and says so once", .timeLimit(.minutes(10)))
    func outlastsLimits() async throws {
        let pair = try await Pair()
        defer { pair.stop() }
        let store = pair.store { $0.statementTimeout = 200 }
        #expect(try await store.commit([.make(1)]) == [.stored])
        pair.standby.stop()
        let commit = Task { try await store.commit([.make(2), .make(3)]) }
        // The limit here is the server's and a second.
        try await pair.fixture.waitUntil(
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND now() - query_start > interval '3 s'"
        )
        #expect(pair.status.waitingForStandby == 1)
        #expect(pair.status.reason?.contains("standby") == true)
        #expect(pair.metrics.commitsWaitingForStandby.value == 1)
        try pair.standby.restart()
        #expect(try await commit.value == [.stored, .stored])
        #expect(pair.status.waitingForStandby == 0 && pair.status.reason == nil)
        #expect(pair.metrics.commitsWaitingForStandby.value == 0)
        #expect(pair.output.lines.count { $0.contains("database.standby_awaited") } == 1)
        #expect(pair.output.lines.count { $0.contains("database.standby_wait_ended") } == 1)
    }

    @Test(
        "a wait that somebody breaks off is no success, and the next try waits again",
        .timeLimit(.minutes(10)),
        arguments: ["pg_cancel_backend", "pg_terminate_backend"]
    )
    func brokenOff(by function: String) async throws {
        let pair = try await Pair()
        defer { pair.stop() }
        let store = pair.store()
        pair.standby.stop()
        let batch: [IncomingMessage] = [.make(1), .make(2)]
        let commit = Task { try await store.commit(batch) }
        try await pair.waiting()
        try await pair.fixture.script("SELECT \(function)(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        let error = await #expect(throws: StoreError.self) { try await commit.value }
        #expect(error?.kind == .unavailable)
        // It has committed there, and only there.
        #expect(try await pair.fixture.count("messages") == 2)
        let retry = Task { try await store.commit(batch, isRetry: true) }
        try await pair.waiting()
        try await waitUntil { pair.status.waitingForStandby == 1 }
        try pair.standby.restart()
        #expect(try await retry.value == [.stored, .stored])
    }

    @Test(
        "a copy of anything known waits for the standby like the first one, whatever the server's default",
        .timeLimit(.minutes(10))
    )
    func knownCopies() async throws {
        let pair = try await Pair()
        defer { pair.stop() }
        // For the sessions to come. Under the usual default a copy would wait even if nothing asked for it.
        try await pair.fixture.script(
            """
            DO $$ BEGIN
                EXECUTE format('ALTER DATABASE %I SET synchronous_commit = local', current_database());
            END $$
            """
        )
        let known = IncomingMessage.make(1)
        let quarantined = IncomingMessage.make(2, quarantine: .duplicateKey)
        let conflict = known.copy(fingerprint: 2)
        #expect(try await pair.store().commit([known, quarantined, conflict]) == [.stored, .quarantined, .conflict])
        pair.standby.stop()
        let copies: [(IncomingMessage, Bool, StoreOutcome)] = [
            (known.copy(), false, .duplicate), (known, true, .stored), (conflict.copy(), false, .conflict),
            (conflict, true, .conflict), (quarantined, true, .quarantined), (quarantined.copy(), false, .quarantined),
        ]
        for (number, (copy, isRetry, outcome)) in copies.enumerated() {
            let store = pair.store()
            let commit = Task { try await store.commit([copy], isRetry: isRetry) }
            try await pair.fixture.waitUntil(
                """
                SELECT count(*) = 1 /* copy \(number) */ FROM pg_stat_activity
                WHERE wait_event = 'SyncRep' AND application_name = 'upstream-worker'
                """
            )
            try pair.standby.restart()
            #expect(try await commit.value == [outcome], "\(number)")
            pair.standby.stop()
        }
    }

    /// PostgreSQL says by a warning alone that a wait was broken off.
    @Test(
        "a wait that somebody breaks off is no success where sessions hear of errors alone, on any way to an ack",
        .timeLimit(.minutes(10)),
        arguments: Silence.allCases
    )
    func silenced(_ silence: Silence) async throws {
        let pair = try await Pair()
        defer { pair.stop() }
        let known = IncomingMessage.make(1)
        let odd = IncomingMessage.make(2, quarantine: .duplicateKey)
        let conflict = known.copy(fingerprint: 2)
        #expect(try await pair.store().commit([known, odd, conflict]) == [.stored, .quarantined, .conflict])
        let database = pair.fixture.url.split(separator: "/")[1].prefix { $0 != "?" }
        switch silence {
        case .database, .pooled:
            try await pair.fixture.script("ALTER DATABASE \(database) SET client_min_messages = error")
        case .role: try await pair.fixture.script("ALTER ROLE upstream SET client_min_messages = error")
        case .options: break
        }
        let pooler = try Pgbouncer(before: pair.primary, poolSize: 5)
        defer { pooler.stop() }
        var settings = pair.fixture.settings
        if silence == .options {
            settings = try PostgresSettings(url: pair.fixture.url + "&options=-c%20client_min_messages%3Derror")
        }
        if silence == .pooled { settings = try pooler.settings(pair.fixture) }
        await (try await pooler.connect(settings)).close()
        let store = MessageStore(settings, senders: StoreFixture.senders)
        pair.standby.stop()
        let batches: [[IncomingMessage]] = [
            [.make(3)], [.make(4), .make(5)], [known.copy()], [known], [conflict.copy()], [odd.copy()],
        ]
        for (number, batch) in batches.enumerated() {
            let commit = Task { try await store.commit(batch, isRetry: number == 3) }
            try await pair.waiting()
            try await pair.fixture.script(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            )
            let error = await #expect(throws: StoreError.self, "\(number)") { try await commit.value }
            #expect(error?.kind == .unavailable, "\(number)")
        }
    }

    /// What makes sessions hear of errors alone.
    enum Silence: CaseIterable, Sendable { case database, role, options, pooled }

    @Test("an import of what is known waits for the standby as well", .timeLimit(.minutes(10)))
    func load() async throws {
        let pair = try await Pair()
        defer { pair.stop() }
        let known = IncomingMessage.make(1)
        #expect(try await pair.store().commit([known]) == [.stored])
        pair.standby.stop()
        let store = pair.store()
        let load = Task { try await store.load([known], isDelivered: false) }
        try await pair.waiting()
        try pair.standby.restart()
        #expect(try await load.value == [.duplicate])
    }

    @Test("the end of a worker leaves the wait to the server", .timeLimit(.minutes(10)))
    func cancelledTask() async throws {
        let pair = try await Pair()
        defer { pair.stop() }
        let store = pair.store()
        pair.standby.stop()
        let commit = Task { try await store.commit([.make(1)]) }
        try await pair.waiting()
        commit.cancel()
        await #expect(throws: StoreError.self) { try await commit.value }
        // Cancelled, it would be visible, though no standby has it.
        #expect(try await pair.fixture.count("messages") == 0)
        try await pair.waiting()
        // Another worker gets the copy, and finds the first one's lock; that is the standby's doing too.
        let other = pair.store { $0.lockTimeout = 2_000 }
        let copy = Task { try await other.commit([IncomingMessage.make(1).copy()]) }
        try await waitUntil { pair.status.waitingForStandby == 1 }
        let error = await #expect(throws: StoreError.self) { try await copy.value }
        #expect(error?.failureClass == .lock && pair.status.waitingForStandby == 1)
        try pair.standby.restart()
        #expect(try await other.commit([IncomingMessage.make(1).copy()]) == [.duplicate])
        #expect(pair.status.waitingForStandby == 0)
    }

    @Test("where sessions take on another role a wait for the standby is recognised too", .timeLimit(.minutes(10)))
    func assumedRole() async throws {
        let pair = try await Pair()
        defer { pair.stop() }
        try await pair.fixture.addRoles()
        // What `upstream_worker` may see of the sessions of `w` is that they are there.
        try await pair.fixture.script("ALTER ROLE w SET role = upstream_worker")
        var settings = try pair.fixture.settings(as: "w")
        settings.probeAfter = 100
        let store = MessageStore(settings, senders: StoreFixture.senders, status: pair.status)
        #expect(try await store.commit([.make(1)]) == [.stored])
        pair.standby.stop()
        let commit = Task { try await store.commit([.make(2)]) }
        try await waitUntil { pair.status.waitingForStandby == 1 }
        try pair.standby.restart()
        #expect(try await commit.value == [.stored])
    }

    @Test("behind a pooler a wait for the standby is recognised too", .timeLimit(.minutes(10)))
    func pooled() async throws {
        let pair = try await Pair()
        defer { pair.stop() }
        let pooler = try Pgbouncer(before: pair.primary, poolSize: 5)
        defer { pooler.stop() }
        var settings = try pooler.settings(pair.fixture)
        await (try await pooler.connect(settings)).close()
        settings.statementTimeout = 200
        settings.probeAfter = 100
        let store = MessageStore(settings, senders: StoreFixture.senders, status: pair.status)
        #expect(try await store.commit([.make(1)]) == [.stored])
        pair.standby.stop()
        let commit = Task { try await store.commit([.make(2)]) }
        try await pair.fixture.waitUntil(
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND now() - query_start > interval '3 s'"
        )
        #expect(pair.status.waitingForStandby == 1)
        try pair.standby.restart()
        #expect(try await commit.value == [.stored])
    }

    @Test("a batch that waits when its primary is killed is stored on the next one", .timeLimit(.minutes(10)))
    func failover() async throws {
        let pair = try await Pair()
        defer { pair.stop() }
        let name = pair.fixture.url.split(separator: "/")[1].prefix { $0 != "?" }
        let hosts = "\(pair.primary.socketFolder.path),\(pair.standby.socketFolder.path)"
        var settings = try PostgresSettings(url: "postgresql:///\(name)?host=\(hosts)&user=upstream")
        settings.probeAfter = 100
        let store = MessageStore(settings, senders: StoreFixture.senders, status: pair.status)
        #expect(try await store.commit([.make(1)]) == [.stored])
        pair.standby.stop()
        let batch: [IncomingMessage] = [.make(2), .make(3), IncomingMessage.make(1).copy()]
        let commit = Task { try await store.commit(batch) }
        try await pair.waiting()
        pair.primary.kill()
        await #expect(throws: StoreError.self) { try await commit.value }
        try pair.standby.restart()
        let root = try await PostgresConnection.open(PostgresSettings(url: pair.standby.url))
        // Nobody takes writes yet: the standby is refused for what it is, not for a statement that failed there.
        let refused = await #expect(throws: StoreError.self) { try await store.commit(batch, isRetry: true) }
        #expect(refused?.kind == .unavailable)
        try await root.run { connection throws(PostgresError) in
            try connection.script("ALTER SYSTEM SET synchronous_standby_names = ''")
        }
        try await root.run { connection throws(PostgresError) in try connection.script("SELECT pg_promote()") }
        var outcomes: [StoreOutcome]?
        while outcomes == nil { outcomes = try? await store.commit(batch, isRetry: true) }
        #expect(outcomes == [.stored, .stored, .duplicate])
    }

    @Test("a writer behind poolers finds the server that takes writes, before and after", .timeLimit(.minutes(10)))
    func poolersInFront() async throws {
        let pair = try await Pair()
        defer { pair.stop() }
        let poolers = try [Pgbouncer(before: pair.standby), Pgbouncer(before: pair.primary)]
        defer { for pooler in poolers { pooler.stop() } }
        for pooler in poolers {
            // A session that may read is content with the standby.
            var settings = try PostgresSettings(
                url: pair.fixture.url.replacingOccurrences(of: pair.primary.socketFolder.path, with: pooler.folder.path)
                    + "&port=6432"
            )
            settings.isWriter = false
            await (try await pooler.connect(settings)).close()
        }
        let name = pair.fixture.url.split(separator: "/")[1].prefix { $0 != "?" }
        let hosts = poolers.map(\.folder.path).joined(separator: ",")
        let settings = try PostgresSettings(url: "postgresql:///\(name)?host=\(hosts)&port=6432,6432&user=upstream")
        let store = MessageStore(settings, senders: StoreFixture.senders)
        #expect(try await store.commit([.make(1)]) == [.stored])
        let root = try await PostgresConnection.open(PostgresSettings(url: pair.standby.url))
        for statement in ["ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"] {
            try await root.run { connection throws(PostgresError) in try connection.script(statement) }
        }
        pair.primary.kill()
        await #expect(throws: StoreError.self) { try await store.commit([.make(2)]) }
        try await root.run { connection throws(PostgresError) in try connection.script("SELECT pg_promote()") }
        var outcomes: [StoreOutcome]?
        while outcomes == nil { outcomes = try? await store.commit([.make(2)], isRetry: true) }
        #expect(outcomes == [.stored])
    }
}
