import DatabaseSupport
import Foundation
import Ingest
import LocalDatabase
import MessageStore
import Postgres
import Testing
import Vocabulary

/// G5: what is wrong with the database is never blamed on a row, and passes.
@Suite("commits while the database is away")
struct OutageTests {
    /// Commits until the database takes it, as the pipeline does.
    private func persist(_ store: MessageStore, _ batch: [IncomingMessage]) async throws -> [StoreOutcome] {
        let deadline = ContinuousClock.now + .seconds(30)
        var isRetry = false
        while true {
            do {
                return try await store.commit(batch, isRetry: isRetry)
            } catch {
                isRetry = true
                guard error.kind == .unavailable, ContinuousClock.now < deadline else { throw error }
            }
        }
    }

    @Test("a server that is read-only is waited for")
    func readOnlyIsWaitedOut() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let database = fixture.url.split(separator: "/")[1].prefix { $0 != "?" }
        _ = try await store.commit([.make(1)])
        try await fixture.script("ALTER DATABASE \(database) SET default_transaction_read_only = on")
        await store.close()
        let error = await #expect(throws: StoreError.self) { try await store.commit([.make(2)]) }
        #expect(error?.kind == .unavailable && error?.sqlState == "25006" && error?.failureClass == .readOnly)
        try await fixture.script("ALTER DATABASE \(database) RESET default_transaction_read_only")
        // The session was given up, so the next commit sees a server that takes writes.
        #expect(try await store.commit([.make(2)]) == [.stored])
    }

    @Test("a lock on the table is waited for")
    func aLockIsWaitedOut() async throws {
        let fixture = try await StoreFixture()
        var settings = fixture.settings
        settings.lockTimeout = 50
        let store = MessageStore(settings, senders: StoreFixture.senders)
        _ = try await store.commit([.make(1)])
        try await fixture.script("BEGIN; LOCK TABLE upstream.message_ids")
        let error = await #expect(throws: StoreError.self) { try await store.commit([.make(2)]) }
        #expect(error?.kind == .unavailable && error?.sqlState == "55P03" && error?.failureClass == .lock)
        try await fixture.script("ROLLBACK")
        #expect(try await store.commit([.make(2)]) == [.stored])
    }

    @Test("a cancelled task does not wait for a lock")
    func aCancelledTaskDoesNotWaitForALock() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        _ = try await store.commit([.make(1)])
        try await fixture.script("BEGIN; LOCK TABLE upstream.message_ids")
        let task = Task { try await store.commit([.make(2)]) }
        try await fixture.waitUntil(
            "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        task.cancel()
        let error = await #expect(throws: StoreError.self) { try await task.value }
        #expect(error?.kind == .unavailable && error?.sqlState == "57014")
        try await fixture.script("ROLLBACK")
        #expect(try await fixture.count("messages") == 1)
    }

    @Test("a missing schema quarantines no message")
    func aMissingSchemaIsNotTheRowsFault() async throws {
        let fixture = try await StoreFixture(migrated: false)
        let error = await #expect(throws: StoreError.self) { try await fixture.store().commit([.make(1)]) }
        #expect(error?.kind == .unavailable && error?.failureClass == .schema)
    }

    /// The backend dies after it has committed and before the reply is out.
    @Test("a commit whose reply was lost counts as stored")
    func aLostReplyIsSettledAsStored() async throws {
        let fixture = try await StoreFixture()
        let proxy = try CuttingProxy(to: SharedCluster.cluster.socketFolder.appending(path: ".s.PGSQL.5432"))
        defer { proxy.close() }
        let through = fixture.url.replacingOccurrences(
            of: SharedCluster.cluster.socketFolder.path,
            with: proxy.folder.path
        )
        let store = MessageStore(try PostgresSettings(url: through), senders: StoreFixture.senders)
        #expect(try await store.commit([.make(1)]) == [.stored])
        proxy.cutNextReply()
        let batch: [IncomingMessage] = [.make(2), .make(3)]
        let error = await #expect(throws: StoreError.self) { try await store.commit(batch) }
        #expect(error?.kind == .unavailable && error?.failureClass == .connection)
        try await fixture.waitUntil("SELECT count(*) = 3 FROM upstream.messages")
        #expect(try await store.commit(batch, isRetry: true) == [.stored, .stored])
        #expect(try await fixture.count("messages") == 3)
    }

    @Test("kill -9 of the server loses no committed message")
    func killNineOfTheServerLosesNothing() async throws {
        var options = LocalCluster.Options()
        options.isTemporary = true
        let cluster = try LocalCluster.start(in: URL(filePath: "/tmp/upstream-store-kill-\(getpid())"), options)
        let fixture = try await StoreFixture(on: cluster)
        let store = fixture.store()
        let rounds = 40
        let writer = Task {
            var stored = 0
            for round in 0..<rounds {
                let batch = (0..<25).map { IncomingMessage.make(UInt64(round * 25 + $0 + 1)) }
                stored += try await persist(store, batch).count { $0 == .stored }
            }
            return stored
        }
        try await fixture.waitUntil("SELECT count(*) >= 100 FROM upstream.messages")
        cluster.kill()
        try cluster.restart()
        #expect(try await writer.value == rounds * 25)
        let after = try await PostgresConnection.open(fixture.settings)
        let counts = try await after.run { connection throws(PostgresError) in
            try connection.query(
                "SELECT count(*) FROM upstream.messages"
            ).value(Int64.self)
        }
        #expect(counts == Int64(rounds * 25))
        cluster.stop()
    }
}
