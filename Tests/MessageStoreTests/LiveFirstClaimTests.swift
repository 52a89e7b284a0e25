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

    /// Handlers beside whose live deliveries so many replayed ones wait, two to a device, without their messages.
    private func besideReplay(of count: Int, isOrdered: Bool) async throws -> DeliveriesFixture {
        let fixture = try await DeliveriesFixture([.make("orders", ordering: isOrdered ? .device : .none)])
        try await fixture.store.script(
            """
            ALTER TABLE upstream.deliveries SET (autovacuum_enabled = off);
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, device_key, replay_id
            )
            SELECT 'orders', md5(n::text)::uuid, now() - interval '1 day',
                now() - interval '1 hour' + n * interval '1 ms',
                \(isOrdered ? "md5((n % \(count / 2))::text)::uuid" : "NULL"), md5('friday')::uuid
            FROM generate_series(1, \(count)) AS n;
            ANALYZE upstream.deliveries
            """
        )
        return fixture
    }

    @Test(
        "beside 100,000 replayed deliveries that wait, claims of live ones read few of them, a worker's first one too",
        arguments: [false, true]
    )
    func cost(isOrdered: Bool) async throws {
        let fixture = try await besideReplay(of: 100_000, isOrdered: isOrdered)
        try await receive(1...20, ofDevices: isOrdered ? 20 : nil, fixture)
        let claiming = fixture.another("claiming")
        await fixture.writer.close()
        await fixture.deliveries.close()
        _ = try await fixture.rowsRead(afterEndOf: fixture.store.settings.applicationName)
        for (limit, numbers) in [(10, 1...10), (500, 11...20)] as [(Int, ClosedRange<UInt64>)] {
            let before = try await fixture.rowsRead(afterEndOf: "claiming")
            let claimed = try await claiming.claim(.make(limit: limit, ordered: isOrdered))
            await claiming.close()
            #expect(claimed.prefix(10).map(\.number).sorted() == Array(numbers) && claimed.count == limit)
            // The live ones, 490 of the replay, and a piece of the table.
            #expect(try await fixture.rowsRead(afterEndOf: "claiming") - before < 10_000)
        }
    }

    @Test(
        "beside a replay that fills claims, the next one finds what took a second to commit",
        arguments: [false, true]
    )
    func late(isOrdered: Bool) async throws {
        let fixture = try await besideReplay(of: 40_000, isOrdered: isOrdered)
        #expect(try await fixture.claim(.make(ordered: isOrdered)).count == 100)
        // In the last piece of the table, which claims reach by pieces after many of them.
        let key = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"
        try await fixture.store.script(
            """
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, device_key)
            VALUES ('orders', \(key), now() - interval '1 s', now() - interval '1 s', \(isOrdered ? key : "NULL"))
            """
        )
        let claimed = try await fixture.claim(.make(ordered: isOrdered))
        #expect(claimed.first?.messageKey == Digest128(high: .max, low: .max) && claimed.count == 100)
    }

    @Test(
        "what a claim has leased is worked on though a later statement of it fails, and the failure shows where nothing was",
        arguments: [false, true]
    )
    func brokenOff(isOrdered: Bool) async throws {
        let fixture = try await DeliveriesFixture([.make("orders", ordering: isOrdered ? .device : .none)])
        let request = ClaimRequest.make(ordered: isOrdered)
        try await receive(1...10, ofDevices: isOrdered ? 10 : nil, fixture)
        let first = try await fixture.claim(request).map { $0.settled(.release(after: .zero)) }
        #expect(try await fixture.deliveries.settle(first, of: "orders") == 10)
        // Now they are behind the front, where claims look first; what nobody can lease is found afterwards.
        try await fixture.pass("1 hour")
        try await fixture.store.script(
            """
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            VALUES ('orders', 'ffffffff-ffff-ffff-ffff-ffffffffffff', now(), now());
            CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN RAISE EXCEPTION ''this one can not be leased''; END';
            CREATE TRIGGER refuse BEFORE UPDATE ON upstream.deliveries FOR EACH ROW
                WHEN (new.message_key = 'ffffffff-ffff-ffff-ffff-ffffffffffff') EXECUTE FUNCTION public.refuse()
            """
        )
        let claimed = try await fixture.claim(request)
        #expect(claimed.map(\.number).sorted() == Array(1...10))
        _ = try await fixture.deliveries.settle(claimed.map { $0.settled(.done) }, of: "orders")
        // Not at each claim: pieces of the table have their pace.
        try await waitUntil { (try? await fixture.claim(request)) == nil }
    }

    @Test("by device: the next delivery of a device is found though a later part of the settlement failed")
    func settledInPart() async throws {
        let fixture = try await besideReplay(of: 40_000, isOrdered: true)
        // Two of one device, one of another, in the last piece of the table.
        try await fixture.store.script(
            """
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, device_key)
            SELECT 'orders', ('ffffffff-ffff-ffff-0000-00000000000' || n)::uuid, now() - interval '1 hour' + n * interval '1 s',
                now() - interval '1 hour', ('ffffffff-ffff-ffff-0000-00000000000' || n / 3)::uuid
            FROM generate_series(1, 3) AS n;
            CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN RAISE EXCEPTION ''no failure can be noted'' USING ERRCODE = ''55000''; END';
            CREATE TRIGGER refuse BEFORE UPDATE ON upstream.deliveries FOR EACH ROW
                WHEN (new.attempts > old.attempts) EXECUTE FUNCTION public.refuse()
            """
        )
        var request = ClaimRequest.make(ordered: true)
        request.replayed = 0
        let claimed = try await fixture.claim(request)
        #expect(claimed.map(\.number).sorted() == [1, 3])
        let failure = HandlerFailure(group: "boom", detail: "it went boom")
        let ends = claimed.map { $0.settled($0.number == 1 ? .done : .retry(after: .zero, failure)) }
        await #expect(throws: StoreError.self) { try await fixture.deliveries.settle(ends, of: "orders") }
        #expect(try await fixture.claim(request).map(\.number) == [2])
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
