import Dispatcher
import Foundation
import Ingest
import IntegrationSupport
import LocalDatabase
import Logging
import MessageStore
import Postgres
import Synchronization
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

/// Debian's pgbouncer in transaction mode, in front of the shared cluster.
@Suite struct PoolerTests {
    @Test("Everything works through pgbouncer")
    func everythingWorksThroughPgbouncer() async throws {
        let fixture = try await StoreFixture(migrated: false)
        let pooler = try Pgbouncer(before: SharedCluster.cluster)
        defer { pooler.stop() }
        let settings = try pooler.settings(fixture)
        let connection = try await pooler.connect(settings)
        #expect(await connection.isPooled)
        #expect(await fixture.admin.isPooled == false)
        _ = try await Migrator().up(connection)
        #expect(try await StoreHealth.check(connection) == .ready)
        // Two writers share the one server session that the pooler keeps.
        let (left, right) = (
            MessageStore(settings, senders: StoreFixture.senders), MessageStore(settings, senders: StoreFixture.senders)
        )
        for round in 0..<20 as Range<UInt64> {
            async let one = left.commit((0..<10).map { IncomingMessage.make(round * 100 + $0 + 1) })
            async let two = right.commit((0..<10).map { IncomingMessage.make(round * 100 + $0 + 51) })
            #expect(try await one + two == Array(repeating: .stored, count: 20))
        }
        #expect(try await fixture.count("messages") == 400)
        let known = IncomingMessage.make(1)
        #expect(try await left.commit([known, known.copy(fingerprint: 4)]) == [.duplicate, .conflict])
        // Retention and erasure, too.
        let old = IncomingMessage.make(900, receivedAt: IncomingMessage.now() - 50 * 86_400_000_000)
        #expect(try await left.commit([old]) == [.stored])
        #expect(try await Retention(connection).raise(to: .usual))
        let report = try await Retention(connection).run(force: true)
        #expect(report.dropped.count == 1 && report.ledger == 1 && report.isComplete)
        try await fixture.script(
            "UPDATE upstream.messages SET device_key = left(encode(sha256('token-SECRET'), 'hex'), 32)::uuid"
        )
        #expect(try await Erasure(connection, token: [UInt8]("token-SECRET".utf8)).run(by: .tester).messages == 400)
        // Nothing of ours stays behind in the session that others get.
        let abandoned = try await connection.run { connection throws(PostgresError) in
            try connection.query("SELECT count(*) FROM pg_prepared_statements").value(Int64.self)
        }
        #expect(abandoned == 0)
        // LISTEN would never hear anything: it ends, for the dispatcher to say so, where it waits for ever elsewhere.
        let deliveries = PostgresDeliveryStore(settings)
        try await deliveries.listen { Issue.record("a notification through a pooler in transaction mode") }
        await deliveries.close()
    }

    /// A notification is a transaction too, which ends with those that are due.
    @Test("behind a pooler others are notified once, after the transaction or alone")
    func notifies() async throws {
        let fixture = try await StoreFixture()
        let pooler = try Pgbouncer(before: SharedCluster.cluster)
        defer { pooler.stop() }
        let connection = try await pooler.connect(pooler.settings(fixture))
        let (wakes, listener) = (Tally(), PostgresDeliveryStore(fixture.settings))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                do { try await listener.listen { wakes.increment() } } catch {}
            }
            try await fixture.waitUntil(
                "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
            )
            for count in 1...2 {
                try await connection.run { connection throws(PostgresError) in
                    guard count == 1 else { return connection.notifyAfterCommit(DeliveryBell.channel) }
                    try connection.transaction { connection throws(PostgresError) in
                        connection.notifyAfterCommit(DeliveryBell.channel)
                        try connection.script("SELECT 1")
                    }
                }
                try await waitUntil { wakes.value >= count }
                #expect(wakes.value == count)
            }
            group.cancelAll()
        }
        await connection.close()
    }

    @Test("statements that are built run under our parameters, alone and in a transaction")
    func parameters() async throws {
        let fixture = try await StoreFixture()
        try await fixture.setDefault("jit", "on")
        try await fixture.setDefault("lock_timeout", "1ms")
        let pooler = try Pgbouncer(before: SharedCluster.cluster)
        defer { pooler.stop() }
        let connection = try await pooler.connect(pooler.settings(fixture))
        let asked: SQL = "SELECT current_setting('jit') || ' ' || current_setting('lock_timeout')"
        #expect(await connection.isPooled)
        let (alone, inside) = try await connection.run { connection throws(PostgresError) in
            let alone: String = try connection.run(asked).value()
            try connection.begin()
            let inside: String = try connection.run(asked).value()
            try connection.script("ROLLBACK")
            return (alone, inside)
        }
        #expect(alone == "off 10s" && inside == alone)
    }

    @Test("a transaction that could not begin is ended, and the session goes on")
    func brokenBeginning() async throws {
        let fixture = try await StoreFixture()
        let pooler = try Pgbouncer(before: SharedCluster.cluster)
        defer { pooler.stop() }
        var settings = try pooler.settings(fixture)
        // Fails behind BEGIN, as it does where somebody cancels it there.
        settings.lockTimeout = -2
        let connection = try await pooler.connect(settings)
        for isTrial in [false, true] {
            let error = await #expect(throws: PostgresError.self) {
                let body = { @Sendable (_: isolated PostgresConnection) throws(PostgresError) in }
                if isTrial { try await connection.trial(body) } else { try await connection.inTransaction(body) }
            }
            #expect(error?.sqlState == "22023")
            let answer = try await connection.run { connection throws(PostgresError) in
                try connection.query("SELECT 7::int8").value(Int64.self)
            }
            #expect(answer == 7)
        }
    }

    /// Nothing can be set for a session there.
    @Test(
        "a handler that subscribes while an insert waits gets the message",
        arguments: ["read committed", "repeatable read"]
    )
    func subscribedMeanwhile(isolation: String) async throws {
        let fixture = try await StoreFixture()
        try await fixture.setDefault("default_transaction_isolation", isolation)
        let pooler = try Pgbouncer(before: SharedCluster.cluster)
        defer { pooler.stop() }
        let settings = try pooler.settings(fixture)
        #expect(try await pooler.connect(settings).isPooled)
        let store = MessageStore(settings, senders: StoreFixture.senders)
        // Its sender is known, and it is stored whatever the isolation is.
        #expect(try await store.commit([.make(7)]) == [.stored])
        #expect(try await fixture.deliveriesOfHandlerMeanwhile(store) == 1)
        #expect(try await store.commit([.make(1, receivedAt: IncomingMessage.now())]) == [.duplicate])
    }

    @Test(
        "a dispatcher behind a pooler finds everything by polling, and says once that it has to",
        .timeLimit(.minutes(5))
    )
    func dispatch() async throws {
        let seen = Seen()
        let handlers = [
            HandlerRegistration.make("orders") { message, _ in
                seen.add(message)
                return .done
            }
        ]
        let fixture = try await DeliveriesFixture(handlers)
        let pooler = try Pgbouncer(before: SharedCluster.cluster)
        defer { pooler.stop() }
        let settings = try pooler.settings(fixture.store)
        await (try await pooler.connect(settings)).close()
        let output = MemoryLogOutput()
        let attempts = Mutex(0)
        var clock = TimeSource.system
        // The pause between two attempts to listen, which is of minutes, is over at once.
        clock.sleep = { duration in
            if duration >= .seconds(600) {
                attempts.withLock { $0 += 1 }
                try await Task.sleep(for: .milliseconds(1))
            } else {
                try await Task.sleep(for: duration)
            }
        }
        let refusals = Mutex(0)
        let recording = AttemptRecording(worker: "host:1", isWanted: true) { _ in refusals.withLock { $0 += 1 } }
        let store = PostgresDeliveryStore(settings, worker: "host:1", recording: recording)
        let service = fixture.dispatcher(
            handlers,
            over: store,
            logger: .lines(label: "test", level: .info, format: .json, output: output),
            clock: clock
        ) { $0.recordsAttempts = true }
        try await fixture.run(service) {
            // By another worker, so that nothing is handed over.
            try await fixture.receive(1...300)
            try await waitUntil { seen.all.count >= 300 && attempts.withLock { $0 >= 5 } }
            try await waitUntil { try await fixture.count() == 0 }
            #expect(try await fixture.store.count("attempts") == 300)
            // Without the table of the history its deliveries are settled all the same.
            try await fixture.store.script("ALTER TABLE upstream.attempt_batches RENAME TO former")
            try await fixture.receive(301...320)
            try await waitUntil { seen.all.count >= 320 }
            try await waitUntil { try await fixture.count() == 0 }
        }
        await store.close()
        #expect(refusals.withLock { $0 } == 1)
        #expect(seen.all.sorted() == Array(1...320))
        #expect(output.lines.count { $0.contains("database.notifications_unavailable") } == 1)
    }
}

/// A pgbouncer on a unix socket; ends with the test.
struct Pgbouncer {
    let folder: URL
    private let process: Process

    private let cluster: LocalCluster

    init(before cluster: LocalCluster, poolSize: Int = 1) throws {
        self.cluster = cluster
        folder = URL(filePath: "/tmp/upstream-pgbouncer-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let configuration = """
            [databases]
            * = host=\(cluster.socketFolder.path)
            [pgbouncer]
            listen_addr =
            unix_socket_dir = \(folder.path)
            listen_port = 6432
            pool_mode = transaction
            default_pool_size = \(poolSize)
            auth_type = any
            logfile = \(folder.path)/log
            """
        process = try startPgbouncer(
            configuration.replacingOccurrences(of: "* = host", with: "* = user=upstream host"),
            in: folder
        )
    }

    /// The way to a fixture's database through the pooler.
    func settings(_ fixture: StoreFixture) throws -> PostgresSettings {
        let folder = cluster.socketFolder.path
        return try PostgresSettings(
            url: fixture.url.replacingOccurrences(of: folder, with: self.folder.path) + "&port=6432"
        )
    }

    /// Connects as soon as the pooler listens.
    func connect(_ settings: PostgresSettings) async throws -> PostgresConnection {
        let deadline = ContinuousClock.now + .seconds(10)
        while true {
            do {
                return try await PostgresConnection.open(settings)
            } catch {
                guard ContinuousClock.now < deadline, process.isRunning else { throw error }
            }
        }
    }

    func stop() {
        // Not SIGTERM: Foundation starts its children with most signals blocked.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        try? FileManager.default.removeItem(at: folder)
    }
}
