import Dispatcher
import Ingest
import IntegrationSupport
import Postgres
import Testing
import UpstreamKit
import Vocabulary

@testable import MessageStore

/// Claims beside a replay whose deliveries wait in rows.
@Suite("claims take live deliveries first", .timeLimit(.minutes(10)))
struct LiveFirstClaimTests {
    private let replay = "replay_id = md5('friday')::uuid, next_attempt_at = next_attempt_at - interval '1 minute'"

    /// Stores messages, and has a replay ask for what waits so far.
    private func replayed(
        _ numbers: ClosedRange<UInt64>,
        ofDevices devices: UInt64? = nil
    ) async throws -> DeliveriesFixture {
        let fixture = try await DeliveriesFixture([.make("orders", ordering: devices == nil ? .none : .device)])
        try await receive(numbers, ofDevices: devices, fixture)
        try await fixture.store.script("UPDATE upstream.deliveries SET \(replay)")
        return fixture
    }

    private func receive(
        _ numbers: ClosedRange<UInt64>,
        ofDevices devices: UInt64? = nil,
        _ fixture: DeliveriesFixture
    ) async throws {
        guard let devices else { return try await fixture.receive(numbers) }
        _ = try await fixture.writer.commit(IncomingMessage.make(numbers, ofDevices: devices))
    }

    @Test("live deliveries are claimed before replayed ones that were due long before, and these with what is left")
    func liveFirst() async throws {
        let fixture = try await replayed(1...600)
        try await receive(601...700, fixture)
        let claimed = try await fixture.claim(.make(limit: 150))
        #expect(claimed.prefix(100).map(\.number) == Array(601...700))
        #expect(claimed.suffix(50).map(\.number) == Array(1...50))
        #expect(claimed.count == 150 && claimed.suffix(50).allSatisfy(\.givesWay))
        try await receive(701...710, fixture)
        var request = ClaimRequest.make(limit: 150)
        request.replayed = 0
        #expect(try await fixture.claim(request).map(\.number) == Array(701...710))
        request.replayed = 20
        #expect(try await fixture.claim(request).map(\.number) == Array(51...70))
    }

    @Test("replayed deliveries have their turns in claims that live ones fill")
    func turns() async throws {
        let fixture = try await replayed(1...50)
        try await receive(51...100, fixture)
        var request = ClaimRequest.make(limit: 10)
        #expect(try await fixture.claim(request).map(\.number) == Array(51...60))
        request.owed = 2
        #expect(try await fixture.claim(request).map(\.number) == Array(61...70) + [1, 2])
        request.replayed = 1
        #expect(try await fixture.claim(request).map(\.number) == Array(71...80) + [3])
    }

    @Test("a claim takes live and replayed deliveries up to their own number of bytes, and one more")
    func bytes() async throws {
        let fixture = try await replayed(1...50)
        try await receive(51...100, fixture)
        let size = try #require(try await fixture.claim(.make(limit: 1)).first).content.size
        var request = ClaimRequest.make(limit: 100)
        (request.bytes, request.replayedBytes) = (size * 100, size * 2 + 1)
        let claimed = try await fixture.claim(request)
        #expect(claimed.map(\.number) == Array(52...100) + [1, 2, 3])
        // Full of live ones by their bytes: what else is due was not looked for, and is found afterwards.
        try await receive(101...120, fixture)
        (request.bytes, request.replayedBytes) = (size * 4 + 1, size * 100)
        request.limit = 10
        #expect(try await fixture.claim(request).map(\.number) == Array(101...105))
        request.bytes = size * 100
        request.limit = 15
        #expect(try await fixture.claim(request).map(\.number) == Array(106...120))
        #expect(try await fixture.claim(request).map(\.number) == Array(4...18))
    }

    @Test("of a long replay claims take the oldest next, however many claims of live ones were made before")
    func order() async throws {
        let fixture = try await DeliveriesFixture()
        // Without messages; the keys are in no order.
        try await fixture.store.script(
            """
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, replay_id)
            SELECT 'orders', md5(n::text)::uuid, now() - interval '1 day',
                now() - interval '1 hour' + n * interval '1 ms', md5('friday')::uuid
            FROM generate_series(1, 20000) AS n
            """
        )
        for number: UInt64 in 1...5 {
            try await receive((number * 10)...(number * 10 + 9), fixture)
            #expect(try await fixture.claim(.make(limit: 10)).map(\.number) == Array((number * 10)...(number * 10 + 9)))
        }
        for _ in 1...2 { #expect(try await fixture.claim(.make(limit: 200)).count == 200) }
        #expect(
            try await fixture.store.integer(
                """
                SELECT count(lease_until) FROM (
                    SELECT lease_until FROM upstream.deliveries WHERE replay_id IS NOT NULL
                    ORDER BY next_attempt_at, received_at, message_key LIMIT 400
                ) AS oldest
                """
            ) == 400
        )
    }

    @Test("beside 100,000 replayed deliveries that wait, a claim of live ones reads few of them")
    func cost() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.store.script(
            """
            ALTER TABLE upstream.deliveries SET (autovacuum_enabled = off);
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, replay_id)
            SELECT 'orders', md5(n::text)::uuid, now() - interval '1 day',
                now() - interval '1 hour' + n * interval '1 ms', md5('friday')::uuid
            FROM generate_series(1, 100000) AS n;
            ANALYZE upstream.deliveries
            """
        )
        let claiming = fixture.another("claiming")
        // A worker that has just started passes over them once.
        #expect(try await claiming.claim(.make(limit: 500)).count == 500)
        try await receive(1...10, fixture)
        await claiming.close()
        await fixture.writer.close()
        await fixture.deliveries.close()
        _ = try await fixture.rowsRead(afterEndOf: fixture.store.settings.applicationName)
        let before = try await fixture.rowsRead(afterEndOf: "claiming")
        let claimed = try await claiming.claim(.make(limit: 500))
        await claiming.close()
        #expect(claimed.count == 500 && claimed.prefix(10).map(\.number) == Array(1...10))
        // The live ones, 490 of the replay, and a piece of the table.
        #expect(try await fixture.rowsRead(afterEndOf: "claiming") - before < 10_000)
    }

    @Test("by device: devices with live deliveries first, each still in order of arrival")
    func byDevice() async throws {
        // Two of the replay for the devices 1 to 10, one for each other.
        let fixture = try await replayed(1...30, ofDevices: 20)
        try await receive(31...34, ofDevices: 20, fixture)
        var request = ClaimRequest.make(limit: 10, ordered: true)
        request.replayed = 0
        var claimed: [Delivery] = []
        func next() async throws -> [UInt64] {
            _ = try await fixture.deliveries.settle(claimed.map { $0.settled(.done) }, of: "orders")
            claimed = try await fixture.claim(request)
            return claimed.map(\.number).sorted()
        }
        // What live ones of their devices wait for, as if it were live.
        #expect(try await next() == [11, 12, 13, 14])
        #expect(claimed.allSatisfy { !$0.givesWay })
        #expect(try await next() == [31, 32, 33, 34])
        #expect(try await next() == [])
        request.replayed = .max
        request.limit = 100
        #expect(try await next() == Array(1...10) + Array(15...20))
        #expect(claimed.allSatisfy { $0.givesWay })
        #expect(try await next() == Array(21...30))
        #expect(try await next() == [])
        #expect(try await fixture.count() == 0)
    }

    @Test("by device: replayed deliveries that do not fit by their bytes are examined again, in a table of any size")
    func byDeviceAndBytes() async throws {
        let fixture = try await replayed(1...20, ofDevices: 20)
        try await fixture.store.script(
            """
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT 'other', md5(n::text)::uuid, now(), now() FROM generate_series(1, 200000) AS n;
            ANALYZE upstream.deliveries
            """
        )
        var request = ClaimRequest.make(limit: 100, ordered: true)
        request.replayedBytes = 1
        var claimed = try await fixture.claim(request)
        let size = try #require(claimed.first).content.size
        request.replayedBytes = size * 3 + 1
        for _ in 1...4 {
            let next = try await fixture.claim(request)
            #expect(next.count == 4)
            claimed += next
        }
        request.replayedBytes = size * 100
        claimed += try await fixture.claim(request)
        #expect(claimed.map(\.number).sorted() == Array(1...20))
    }

    @Test("by device: replayed deliveries give way again once another worker has handled the live one")
    func byDeviceElsewhere() async throws {
        let fixture = try await DeliveriesFixture([.make("orders", ordering: .device)])
        let other = fixture.another("other")
        try await receive(1...4, ofDevices: 4, fixture)
        // It finds all four, and takes one.
        let first = try await other.claim(.make(limit: 1, ordered: true))
        let others = try await fixture.claim(.make(limit: 100, ordered: true))
        #expect(first.count == 1 && others.count == 3)
        #expect(try await other.claim(.make(limit: 100, ordered: true)).isEmpty)
        _ = try await other.settle(first.map { $0.settled(.done) }, of: "orders")
        _ = try await fixture.deliveries.settle(others.map { $0.settled(.done) }, of: "orders")
        try await fixture.store.script(
            """
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, device_key, replay_id
            )
            SELECT 'orders', message_key, received_at, now(), device_key, md5('friday')::uuid FROM upstream.messages
            """
        )
        let replayed = try await other.claim(.make(limit: 100, ordered: true))
        await other.close()
        #expect(replayed.count == 4 && replayed.allSatisfy(\.givesWay))
    }

    @Test(
        "a handler's live messages go on while replayed ones take their half of the slots for good",
        arguments: [false, true]
    )
    func dispatched(isOrdered: Bool) async throws {
        let (reached, opened, seen) = (Seen(), Seen(), Seen())
        let handler = HandlerRegistration.make(
            "orders",
            ["com.example.live"],
            ordering: isOrdered ? .device : .none
        ) { message, context in
            if context.replayID != nil {
                reached.add(message)
                try await waitUntil { !opened.all.isEmpty }
            }
            seen.add(message)
            return .done
        }
        let fixture = try await DeliveriesFixture([handler])
        try await receive(1...1_000, category: "com.example.old", fixture)
        try await fixture.run(fixture.dispatcher([handler])) {
            try await receive(2_000...2_000, category: "com.example.live", fixture)
            try await waitUntil { seen.all == [2_000] }
            try await fixture.store.script(
                """
                INSERT INTO upstream.deliveries (
                    handler, message_key, received_at, next_attempt_at, device_key, replay_id
                )
                SELECT 'orders', message_key, received_at, now(), \(isOrdered ? "device_key" : "NULL"),
                    md5('friday')::uuid
                FROM upstream.messages WHERE category = 'com.example.old'
                """
            )
            try await waitUntil { reached.all.count == HandlerRegistration.defaultConcurrency / 2 }
            for number: UInt64 in 2_001...2_020 {
                try await receive(number...number, category: "com.example.live", fixture)
                try await waitUntil { seen.all.last == number }
            }
            #expect(reached.all.count == HandlerRegistration.defaultConcurrency / 2)
            opened.add(.sample(category: "c", data: nil))
            try await waitUntil { seen.all.count == 1_021 }
        }
        #expect(Set(seen.all) == Set(1...1_000 as ClosedRange<UInt64>).union(2_000...2_020))
    }

    /// Stores messages of a category, each of its own device.
    private func receive(
        _ numbers: ClosedRange<UInt64>,
        category: String,
        _ fixture: DeliveriesFixture
    ) async throws {
        let start = IncomingMessage.now()
        let batch = numbers.map { number in
            var message = IncomingMessage.make(number, receivedAt: start + Int64(number), category: category)
            message.deviceKey = Digest128(high: number, low: 5)
            return message
        }
        _ = try await fixture.writer.commit(batch)
    }
}
