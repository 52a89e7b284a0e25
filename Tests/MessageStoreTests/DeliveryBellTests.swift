import Foundation
import Ingest
import IntegrationSupport
import Logging
import Telemetry
import Testing
import Vocabulary

@testable import MessageStore

/// How workers hear of deliveries that others have stored.
@Suite("other workers are woken after the commit", .timeLimit(.minutes(5))) struct DeliveryBellTests {
    /// Listens until `body` is over.
    private func listening(
        _ fixture: DeliveriesFixture,
        _ body: @escaping @Sendable (Tally) async throws -> Void
    ) async throws {
        let (wakes, listener) = (Tally(), fixture.another())
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                do { try await listener.listen { wakes.increment() } } catch {}
            }
            let sessions =
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
            try await waitUntil { try await fixture.store.integer(sessions) ?? 0 > 0 }
            try await body(wakes)
            group.cancelAll()
        }
    }

    @Test("a batch with deliveries for others rings the bell; a thousand rings make few notifications")
    func rings() async throws {
        let fixture = try await DeliveriesFixture()
        try await listening(fixture) { wakes in
            let bell = DeliveryBell(fixture.store.settings)
            let store = MessageStore(fixture.store.settings, senders: StoreFixture.senders, bell: bell)
            let ringing = Task { await bell.run() }
            _ = try await store.commit([.make(1)])
            try await waitUntil { wakes.value > 0 }
            let (start, before) = (ContinuousClock.now, wakes.value)
            for _ in 0..<1_000 { bell.ring() }
            // A known message that is tried again: the try before may have stored it, and had no reply.
            _ = try await store.commit([.make(1)], isRetry: true)
            try await waitUntil { wakes.value > before }
            let most = 2 + (ContinuousClock.now - start) / .milliseconds(20)
            #expect(Double(wakes.value - before) <= most)
            ringing.cancel()
            await ringing.value
            await store.close()
        }
    }

    @Test("a try that is repeated wakes others, since the one before may have stored without a reply")
    func retried() async throws {
        let fixture = try await DeliveriesFixture()
        let bell = DeliveryBell(fixture.store.settings)
        let store = MessageStore(fixture.store.settings, senders: StoreFixture.senders, bell: bell)
        // Nobody answers this ring.
        _ = try await store.commit([.make(1)])
        let again = DeliveryBell(fixture.store.settings)
        let second = MessageStore(fixture.store.settings, senders: StoreFixture.senders, bell: again)
        try await listening(fixture) { wakes in
            let ringing = Task { await again.run() }
            #expect(try await second.commit([.make(1)], isRetry: true) == [.duplicate])
            try await waitUntil { wakes.value > 0 }
            ringing.cancel()
            await ringing.value
        }
        await store.close()
        await second.close()
    }

    @Test("what was stored last before the end is told of all the same")
    func finished() async throws {
        let fixture = try await DeliveriesFixture()
        try await listening(fixture) { wakes in
            let bell = DeliveryBell(fixture.store.settings)
            bell.ring()
            bell.finish()
            await bell.run()
            try await waitUntil { wakes.value > 0 }
        }
    }

    @Test("where nobody can be notified, all is stored and released all the same, and a warning says so once")
    func refused() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.store.addRoles()
        try await fixture.store.script("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC")
        let output = MemoryLogOutput()
        let settings = try fixture.store.settings(as: "w")
        let status = CommitStatus(logger: .lines(label: "test", level: .info, format: .json, output: output))
        let bell = DeliveryBell(settings, status: status)
        let store = MessageStore(settings, senders: StoreFixture.senders, status: status, bell: bell)
        let ringing = Task { await bell.run() }
        for number: UInt64 in 1...3 {
            #expect(try await store.commit([.make(number)]) == [.stored])
            try await waitUntil { output.lines.contains { $0.contains("database.notifications_unavailable") } }
        }
        #expect(output.lines.count { $0.contains("database.notifications_unavailable") } == 1)
        #expect(try await fixture.store.count("deliveries") == 3)
        // Without a bell the writer's own session does it, after the commit.
        let plain = MessageStore(settings, senders: StoreFixture.senders)
        #expect(try await plain.commit([.make(4)]) == [.stored])
        #expect(try await fixture.store.count("deliveries") == 4)
        ringing.cancel()
        await ringing.value
        await store.close()
        await plain.close()
    }

    @Test("no function of ours notifies: it would do so in its caller's transaction")
    func functions() async throws {
        let fixture = try await StoreFixture()
        let sql =
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'upstream'::regnamespace AND prosrc ILIKE '%notify%'"
        #expect(try await fixture.integer(sql) == 0)
        #expect(try await fixture.integer(sql.replacingOccurrences(of: "%notify%", with: "%message_ids%")) ?? 0 > 0)
    }
}
