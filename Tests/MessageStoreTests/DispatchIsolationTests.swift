import Dispatch
import Dispatcher
import Foundation
import IntegrationSupport
import Postgres
import Synchronization
import Testing
import UpstreamKit
import Vocabulary

@testable import MessageStore

/// What stops one handler, in a worker or in the database, and the others beside it.
@Suite("isolation between handlers", .timeLimit(.minutes(10)))
struct DispatchIsolationTests {
    /// The longest that a message waited for its handler.
    private final class Longest: Sendable {
        private let state = Mutex((count: 0, wait: Duration.zero))
        var count: Int { state.withLock(\.count) }
        var wait: Duration { state.withLock(\.wait) }

        func add(_ message: UpstreamMessage) {
            let wait = Duration.microseconds(IncomingMessage.now() - message.receivedAtMicroseconds)
            state.withLock { state in
                state.count += 1
                state.wait = max(state.wait, wait)
            }
        }
    }

    @Test("A device's dead letters, however many are retried at once, wait for its message that is being handled")
    func retriedBeside() async throws {
        let fixture = try await DeliveriesFixture([.make("orders", ordering: .device)])
        try await fixture.receive(1...1)
        let running = try await fixture.claim(.make(ordered: true))
        #expect(running.map(\.number) == [1])
        try await fixture.store.script(
            """
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, device_key, last_error)
            SELECT handler, md5(n::text)::uuid, received_at - n * interval '1 s', now(), device_key, 'of an earlier attempt'
            FROM upstream.deliveries, generate_series(1, 2500) AS n
            """
        )
        #expect(try await fixture.another().claim(.make(owner: "b", ordered: true)).isEmpty)
        _ = try await fixture.deliveries.settle(running.map { $0.settled(.done) }, of: "orders")
        #expect(try await fixture.another().claim(.make(owner: "b", ordered: true)).count == 1)
    }

    @Test("A worker frozen in an ordered handler's claim stops no other handler, and this one no longer than a lease")
    func frozen() async throws {
        let (ordered, other) = (Seen(), Longest())
        let handlers: [HandlerRegistration] = [
            .make("ordered", ordering: .device) { message, _ in
                ordered.add(message)
                return .done
            },
            .make("other") { message, _ in
                other.add(message)
                return .done
            },
        ]
        let fixture = try await DeliveriesFixture(handlers)
        let frozen = fixture.another()
        let thaw = DispatchSemaphore(value: 0)
        let lease = Duration.seconds(8)
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { thaw.signal() }
            group.addTask {
                let parameters = ClaimParameters(
                    request: ClaimRequest(handler: "ordered", limit: 1, lease: lease, owner: "frozen")
                )
                let error = await #expect(throws: StoreError.self) {
                    try await frozen.run { connection throws(PostgresError) in
                        try connection.transaction { connection throws(PostgresError) in
                            try connection.run(ClaimStatements.lockOrdered, parameters)
                            thaw.wait()
                            try connection.run(ClaimStatements.lockOrdered, parameters)
                        }
                    }
                }
                #expect(error?.sqlState == "25P03", "\(error?.message ?? "")")
            }
            try await fixture.store.waitUntil("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory')")
            let start = ContinuousClock.now
            let service = fixture.dispatcher(handlers) { $0.lease = lease }
            try await fixture.run(service) {
                for number: UInt64 in 1...20 {
                    try await fixture.receive(number...number)
                    try await waitUntil { other.count == Int(number) }
                }
                #expect(other.wait < .seconds(2))
                try await waitUntil { ordered.all.count == 20 }
                #expect(.now - start < lease + .seconds(2))
            }
        }
        #expect(other.count == 20)
    }

    @Test("Where sessions take on another role, one that its worker does not read is ended too")
    func unread() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.store.addRoles()
        let database = fixture.store.url.split(separator: "/")[1].prefix { $0 != "?" }
        try await fixture.store.script("ALTER ROLE w IN DATABASE \(database) SET role = upstream_worker")
        let settings = try fixture.store.settings(as: "w")
        let reader = Process()
        reader.executableURL = URL(filePath: "/usr/bin/psql")
        // Its output goes to a pipe that nobody reads.
        reader.standardOutput = Pipe()
        reader.standardError = FileHandle.nullDevice
        reader.arguments = [
            "--no-psqlrc", settings.url, "--command",
            """
            BEGIN; LOCK TABLE upstream.deliveries IN ROW EXCLUSIVE MODE;
            COPY (SELECT repeat('x', 1000000) FROM generate_series(1, 100)) TO STDOUT; COMMIT
            """,
        ]
        try reader.run()
        defer { reader.terminate() }
        let waits = """
            EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'ClientWrite')
            """
        try await fixture.store.waitUntil("SELECT \(waits)")
        try await PostgresDeliveryStore(settings, worker: "b").takeFromOthers(after: .zero)
        try await fixture.store.waitUntil("SELECT NOT \(waits)")
    }

    @Test("A claim of an ordered handler never waits for another one's lock")
    func claimsNeverWait() async throws {
        let fixture = try await DeliveriesFixture([.make("ordered", ordering: .device) { _, _ in .done }])
        try await fixture.receive(1...1)
        let request = ClaimRequest(handler: "ordered", limit: 1, lease: .seconds(60), owner: "a", isOrdered: true)
        let holder = try await PostgresConnection.open(fixture.store.settings)
        try await holder.run { connection throws(PostgresError) in
            try connection.script("BEGIN")
            try connection.run(ClaimStatements.lockOrdered, ClaimParameters(request: request))
        }
        #expect(try await fixture.claim(request).isEmpty)
        try await holder.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        #expect(try await fixture.claim(request).count == 1)
        await holder.close()
    }

    @Test("Locked rows of one handler keep no other from settling, nor from keeping its leases")
    func lockedRows() async throws {
        let (reached, opened) = (Seen(), Seen())
        let seen = Seen()
        let slow = Gate()
        let handlers: [HandlerRegistration] = [
            .make("locked") { message, _ in
                reached.add(message)
                try await waitUntil { !opened.all.isEmpty }
                return .done
            },
            .make("other") { message, _ in
                seen.add(message)
                if message.messageKey.digest.low == 5 { await slow.wait() }
                return .done
            },
        ]
        let fixture = try await DeliveriesFixture(handlers)
        try await fixture.receive(1...4)
        let blocker = try await PostgresConnection.open(fixture.store.settings)
        let service = fixture.dispatcher(handlers) { $0.lease = .seconds(3) }
        try await fixture.run(service) {
            try await waitUntil { reached.all.count == 4 && seen.all.count == 4 }
            try await fixture.store.waitUntil("SELECT count(*) = 4 FROM upstream.deliveries")
            try await blocker.run { connection throws(PostgresError) in
                try connection.script("BEGIN; SELECT FROM upstream.deliveries WHERE handler = 'locked' FOR UPDATE")
            }
            opened.add(.sample(category: "c", data: nil))
            try await fixture.store.waitUntil("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
            let start = ContinuousClock.now
            try await fixture.receive(5...300)
            // All but the one that is held.
            try await waitUntil { try await fixture.count("handler = 'other'") == 1 }
            #expect(.now - start < .seconds(2))
            // The lease of that one is extended, time and again.
            let end = try await fixture.store.integer(
                "SELECT extract(epoch FROM lease_until)::int8 + 4 FROM upstream.deliveries WHERE handler = 'other'"
            )
            try await fixture.store.waitUntil(
                """
                SELECT extract(epoch FROM lease_until) > \(try #require(end))
                FROM upstream.deliveries WHERE handler = 'other'
                """
            )
            #expect(try await fixture.count("handler = 'locked'") ?? 0 >= 4)
            slow.open()
            await blocker.close()
            try await waitUntil { try await fixture.count() == 0 }
        }
        // Each once: no lease was lost.
        #expect(seen.all.sorted() == Array(1...300))
    }

    @Test("Locked rows of more handlers than there are sessions hold another up for seconds, not longer than its lease")
    func manyLockedRows() async throws {
        let (reached, opened, seen) = (Seen(), Seen(), Seen())
        let count = PostgresDeliveryStore.mostSessions(handlers: .max) + 1
        var handlers = (1...count).map { number in
            HandlerRegistration.make("locked\(number)") { message, _ in
                reached.add(message)
                try await waitUntil { !opened.all.isEmpty }
                return .done
            }
        }
        handlers.append(.make("other", seen: seen))
        let fixture = try await DeliveriesFixture(handlers)
        try await fixture.receive(1...1)
        let blocker = try await PostgresConnection.open(fixture.store.settings)
        try await fixture.run(fixture.dispatcher(handlers) { $0.lease = .seconds(6) }) {
            try await waitUntil { reached.all.count == count && seen.all.count == 1 }
            try await fixture.store.waitUntil("SELECT count(*) = \(count) FROM upstream.deliveries")
            try await blocker.run { connection throws(PostgresError) in
                try connection.script("BEGIN; SELECT FROM upstream.deliveries FOR UPDATE")
            }
            opened.add(.sample(category: "c", data: nil))
            try await fixture.store.waitUntil("SELECT count(*) > 9 FROM pg_locks WHERE NOT granted")
            let start = ContinuousClock.now
            try await fixture.receive(2...2)
            try await waitUntil { try await fixture.count("handler = 'other'") == 0 }
            #expect(.now - start < .seconds(8))
            await blocker.close()
            try await waitUntil { try await fixture.count() == 0 }
        }
        #expect(seen.all == [1, 2])
    }

    @Test("A locked row of a handler keeps no other from its heartbeat, nor from telling of a pause")
    func lockedHandler() async throws {
        let busy = HandlerFailure(group: "webhook status 429", detail: "")
        let handlers = ["locked", "other"].map { name in
            HandlerRegistration.make(name) { _, _ in
                throw HandlerVerdictError(.down(after: nil, hold: .seconds(3_600), busy))
            }
        }
        let fixture = try await DeliveriesFixture(handlers)
        let blocker = try await PostgresConnection.open(fixture.store.settings)
        try await fixture.run(fixture.dispatcher(handlers) { $0.statistics = .milliseconds(50) }) {
            try await fixture.store.waitUntil("SELECT count(*) = 4 FROM upstream.handler_workers")
            let age = "UPDATE upstream.handlers SET seen_at = now() - interval '1 minute'"
            // Locked while it is due to be seen, which the dispatcher does all the time.
            try await waitUntil {
                try await blocker.run { connection throws(PostgresError) in
                    for step in ["ROLLBACK", age, "BEGIN"] { try connection.script(step) }
                    let isDue = "SELECT seen_at < now() - interval '30 s' FROM upstream.handlers"
                    return try connection.query("\(isDue) WHERE name = 'locked' FOR UPDATE").value(Bool.self)
                }
            }
            try await fixture.store.script(
                """
                \(age) WHERE name = 'other';
                UPDATE upstream.handler_workers SET heartbeat_at = now() - interval '1 minute'
                """
            )
            let start = ContinuousClock.now
            try await fixture.receive(1...1)
            try await fixture.store.waitUntil(
                """
                SELECT seen_at > now() - interval '30 s' AND (held_until > now()) IS TRUE AND 2 = (
                    SELECT count(*) FROM upstream.handler_workers WHERE heartbeat_at > now() - interval '30 s'
                )
                FROM upstream.handlers WHERE name = 'other'
                """
            )
            #expect(.now - start < .seconds(5))
            await blocker.close()
            let isHeld = "SELECT (held_until > now()) IS TRUE FROM upstream.handlers WHERE name = 'locked'"
            try await fixture.store.waitUntil(isHeld)
        }
    }
}
