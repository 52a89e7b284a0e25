import DatabaseSupport
import Foundation
import Glibc
import Ingest
import IntegrationSupport
import LocalDatabase
import Postgres
import Testing
import Vocabulary

@testable import MessageStore

/// A statement without an answer is looked into, and a session that nobody serves any more is given up.
@Suite("a server that does not answer")
struct VanishedServerTests {
    private func through(_ proxy: CuttingProxy, _ fixture: StoreFixture) throws -> MessageStore {
        let url = fixture.url.replacingOccurrences(of: SharedCluster.cluster.socketFolder.path, with: proxy.folder.path)
        var settings = try PostgresSettings(url: url)
        (settings.probeAfter, settings.probeLimit) = (200, 1_000)
        // Nothing else may end the wait.
        settings.statementTimeout = 3_600_000
        return MessageStore(settings, senders: StoreFixture.senders)
    }

    private func proxy() throws -> CuttingProxy {
        try CuttingProxy(to: SharedCluster.cluster.socketFolder.appending(path: ".s.PGSQL.5432"))
    }

    @Test("a reply that never comes is not waited for once the server has nothing to do", .timeLimit(.minutes(5)))
    func swallowedReply() async throws {
        let fixture = try await StoreFixture()
        let proxy = try proxy()
        defer { proxy.close() }
        let store = try through(proxy, fixture)
        #expect(try await store.commit([.make(1)]) == [.stored])
        proxy.swallowNextReply()
        let batch: [IncomingMessage] = [.make(2), .make(3)]
        let error = await #expect(throws: StoreError.self) { try await store.commit(batch) }
        // Or it has not arrived: a smaller one may.
        #expect(error?.kind == .timedOut && error?.sqlState == "08007")
        #expect(try await store.commit(batch, isRetry: true) == [.stored, .stored])
        #expect(try await fixture.count("messages") == 3)
    }

    @Test(
        "a database that vanishes behind a proxy is given up when a second connection gets no answer either",
        .timeLimit(.minutes(5))
    )
    func vanished() async throws {
        let fixture = try await StoreFixture()
        let proxy = try proxy()
        defer { proxy.close() }
        let store = try through(proxy, fixture)
        #expect(try await store.commit([.make(1)]) == [.stored])
        proxy.fallSilent()
        let error = await #expect(throws: StoreError.self) { try await store.commit([.make(2)]) }
        #expect(error?.kind == .unavailable && error?.sqlState == "08007")
    }

    @Test("a limit that ends a statement at work asks for a smaller batch", .timeLimit(.minutes(5)))
    func timeLimit() async throws {
        let fixture = try await StoreFixture()
        var settings = fixture.settings
        (settings.statementTimeout, settings.lockTimeout, settings.probeAfter) = (300, 0, 100)
        let store = MessageStore(settings, senders: StoreFixture.senders)
        #expect(try await store.commit([.make(1)]) == [.stored])
        try await fixture.script("BEGIN; LOCK TABLE upstream.message_ids")
        let error = await #expect(throws: StoreError.self) { try await store.commit([.make(2)]) }
        #expect(error?.kind == .timedOut && error?.sqlState == "57014")
        try await fixture.script("ROLLBACK")
        #expect(try await store.commit([.make(2)], isRetry: true) == [.stored])
    }

    @Test("our own limit, where the server has none, cancels what is at work", .timeLimit(.minutes(5)))
    func ownLimit() async throws {
        let fixture = try await StoreFixture()
        // In transaction mode nothing can be set for the session.
        let pooler = try Pgbouncer(before: SharedCluster.cluster, poolSize: 5)
        defer { pooler.stop() }
        var settings = try pooler.settings(fixture)
        await (try await pooler.connect(settings)).close()
        (settings.statementTimeout, settings.lockTimeout, settings.probeAfter) = (300, 0, 100)
        let store = MessageStore(settings, senders: StoreFixture.senders)
        #expect(try await store.commit([.make(1)]) == [.stored])
        try await fixture.script("BEGIN; LOCK TABLE upstream.message_ids")
        let error = await #expect(throws: StoreError.self) { try await store.commit([.make(2)]) }
        #expect(error?.kind == .timedOut)
        try await fixture.script("ROLLBACK")
        #expect(try await store.commit([.make(2)], isRetry: true) == [.stored])
    }

    @Test(
        "a full pool is not told from a dead server: the statement is given up, and nothing is lost",
        .timeLimit(.minutes(5))
    )
    func fullPool() async throws {
        let fixture = try await StoreFixture()
        let pooler = try Pgbouncer(before: SharedCluster.cluster)
        defer { pooler.stop() }
        var settings = try pooler.settings(fixture)
        await (try await pooler.connect(settings)).close()
        (settings.probeAfter, settings.probeLimit, settings.statementTimeout) = (200, 300, 3_600_000)
        let store = MessageStore(settings, senders: StoreFixture.senders)
        #expect(try await store.commit([.make(1)]) == [.stored])
        let other = try await PostgresConnection.open(settings)
        try await other.run { other throws(PostgresError) in try other.script("BEGIN") }
        let error = await #expect(throws: StoreError.self) { try await store.commit([.make(2), .make(3)]) }
        // Of no message, and of no batch's size.
        #expect(error?.kind == .unavailable && error?.sqlState == "08007")
        await other.close()
        #expect(try await store.commit([.make(2), .make(3)], isRetry: true) == [.stored, .stored])
        #expect(try await fixture.count("messages") == 3)
    }

    @Test(
        "a statement that waits in a pooler whose server is gone is given up when the pooler refuses the looks",
        .timeLimit(.minutes(5))
    )
    func goneBehindPooler() async throws {
        let name = "upstream-store-gone-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
        var options = LocalCluster.Options()
        options.isTemporary = true
        options.fsync = false
        let cluster = try LocalCluster.start(in: URL(filePath: "/tmp").appending(path: name), options)
        let pooler = try Pgbouncer(before: cluster)
        defer { pooler.stop() }
        let url = cluster.url.replacingOccurrences(of: cluster.socketFolder.path, with: pooler.folder.path)
        var settings = try PostgresSettings(url: url + "&port=6432")
        settings.isWriter = true
        (settings.probeAfter, settings.probeLimit, settings.statementTimeout) = (200, 1_000, 3_600_000)
        let connection = try await pooler.connect(settings)
        cluster.kill()
        // Until then it might hand the statement to a connection that has died.
        let log = pooler.folder.appending(path: "log")
        try await waitUntil { try String(contentsOf: log, encoding: .utf8).contains("server conn crashed?") }
        let error = await #expect(throws: PostgresError.self) {
            try await connection.run { connection throws(PostgresError) in try connection.script("SELECT 1") }
        }
        #expect(error?.sqlState == "08007", "\(error?.description ?? "")")
    }

    @Test("a writer never waits longer than half a second before it connects again")
    func reconnects() throws {
        for (configured, used) in [(10_000, 500), (500, 500), (100, 100)] {
            var settings = try PostgresSettings(url: "host=nowhere.invalid")
            settings.reconnectMaximum = configured
            let store = MessageStore(settings, senders: StoreFixture.senders)
            #expect(store.client.settings.reconnectMaximum == used)
        }
    }

    @Test("a retry sends only what the ledger lacks")
    func retrySendsTheRest() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let batch = (1...10).map { IncomingMessage.make(UInt64($0)) }
        #expect(try await store.commit(Array(batch[..<6])) == Array(repeating: .stored, count: 6))
        // What the statement is given, row by row, whether new or not.
        try await fixture.script(
            """
            CREATE TABLE public.sent (key uuid);
            CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO public.sent VALUES (new.message_key);
                RETURN new;
            END
            $$;
            CREATE TRIGGER see BEFORE INSERT ON upstream.message_ids FOR EACH ROW EXECUTE FUNCTION public.see()
            """
        )
        let again = batch + [batch[0].copy(), batch[1].copy(fingerprint: 9)]
        #expect(
            try await store.commit(again, isRetry: true)
                == Array(repeating: .stored, count: 10) + [.duplicate, .conflict]
        )
        #expect(try await fixture.integer("SELECT count(*) FROM public.sent") == 4)
        #expect(try await store.commit(again, isRetry: true).prefix(10).allSatisfy { $0 == .stored })
        #expect(try await fixture.integer("SELECT count(*) FROM public.sent") == 4)
    }
}
