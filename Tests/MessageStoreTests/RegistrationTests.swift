import Dispatcher
import Ingest
import IntegrationSupport
import Logging
import MessageStore
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

/// G6 after a failover to a standby, or a restore, that lacks what a worker has registered.
@Suite("a registration that the database has lost")
struct RegistrationTests {
    /// What a worker has registered is gone, as where the database is older than that.
    static let lose = """
        DELETE FROM upstream.handler_workers;
        DELETE FROM upstream.subscriptions;
        DELETE FROM upstream.handlers
        """

    private func offer(_ fixture: DeliveriesFixture, owner: String = "a", isLeased: Bool = true) -> LeaseOffer {
        LeaseOffer(
            handlers: isLeased ? ["orders"] : [],
            local: ["orders"],
            owner: owner,
            token: fixture.token,
            duration: .seconds(60)
        )
    }

    @Test(
        "nothing is stored without it, whether a lease is offered or not, and what is known is acked",
        arguments: [true, false]
    )
    func refused(isLeased: Bool) async throws {
        let fixture = try await DeliveriesFixture()
        let offer = offer(fixture, isLeased: isLeased)
        #expect(try await fixture.writer.commit([.make(1)], leasing: offer, isRetry: false) == [.stored])
        try await fixture.store.script(Self.lose)
        for batch in [[IncomingMessage.make(2)], [.make(1).copy(), .make(2)]] {
            let error = await #expect(throws: StoreError.self) {
                try await fixture.writer.commit(batch, leasing: offer, isRetry: false)
            }
            #expect(error?.kind == .unregistered)
        }
        #expect(try await fixture.store.count("messages") == 1)
        #expect(try await fixture.writer.commit([.make(1).copy()], leasing: offer, isRetry: false) == [.duplicate])
    }

    /// A sequence that has gone back gives the same number again.
    @Test("another worker's registration under the same token is not taken for one's own")
    func others() async throws {
        let fixture = try await DeliveriesFixture()
        let error = await #expect(throws: StoreError.self) {
            try await fixture.writer.commit([.make(1)], leasing: offer(fixture, owner: "b"), isRetry: false)
        }
        #expect(error?.kind == .unregistered)
    }

    @Test("the worker registers again before it stores: every message reaches its handler")
    func again() async throws {
        let seen = Seen()
        let handlers = [HandlerRegistration.make("orders", seen: seen), .make("others", ["com.example.other"])]
        let fixture = try await DeliveriesFixture([])
        let output = MemoryLogOutput()
        let logger = Logger.lines(label: "test", level: .info, format: .json, output: output)
        let service = fixture.dispatcher(handlers, logger: logger)
        let queue = IngestQueue(writers: 2, batchLimit: 10)
        let ingest = IngestService(
            queue: queue,
            writers: [fixture.writer, fixture.store.store()],
            metrics: Metrics(senders: [], categories: [], handlers: [], version: "test"),
            logger: logger,
            intake: service.intake
        )
        try await fixture.run(service) {
            await service.waitUntilSubscribed()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await ingest.run() }
                queue.submit((1...100).map { .make($0) }, from: NoSink())
                try await waitUntil { seen.all.count == 100 }
                try await fixture.store.script(Self.lose)
                queue.submit((101...200).map { .make($0) }, from: NoSink())
                try await waitUntil { seen.all.count == 200 }
                queue.finish()
                try await group.waitForAll()
            }
            try await fixture.store.waitUntil("SELECT upstream.waiting_deliveries('-infinity', 'infinity') = 0")
        }
        #expect(seen.all.sorted() == Array(1...200))
        #expect(output.lines.count { $0.contains("handler.reregistered") } == 1)
        #expect(!output.lines.contains { $0.contains("database.unavailable") })
    }
}

/// Nobody's connection.
private final class NoSink: AckSink {
    func settled(_ copies: SettledCopies) {}
}
