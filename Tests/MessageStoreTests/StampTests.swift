import Dispatcher
import Ingest
import MessageStore
import Testing
import UpstreamKit
import Vocabulary

/// A worker with a system clock of its own: it parses, stamps, and commits as one does.
private struct SkewedWorker {
    static let day: Int64 = 86_400_000_000

    let clock: DatabaseClock
    let store: MessageStore

    /// A worker that has not asked the database yet, with a clock that is so many microseconds ahead of this machine's.
    init(_ fixture: StoreFixture, ahead: Int64) {
        let now = ClockReading.Moment.now
        clock = DatabaseClock(.init(wall: now.wall + .microseconds(ahead), monotonic: now.monotonic))
        store = MessageStore(fixture.settings, senders: StoreFixture.senders, clock: clock)
    }

    /// A message as it is parsed now.
    func message(_ number: UInt64, quarantine: QuarantineReason? = nil) -> IncomingMessage {
        let parsed = MonotonicTime.now
        var message = IncomingMessage.make(number, receivedAt: clock.time(at: parsed), quarantine: quarantine)
        message.parsedAt = parsed.nanoseconds
        return message
    }
}

@Suite("messages are stored under the database's time, whatever a worker's clock shows", .timeLimit(.minutes(10)))
struct StampTests {
    /// What is stored in all tables that keep a time of arrival, and how much of it is further from the database's than a minute.
    private static let stored = """
        SELECT count(*) || ' ' || count(*) FILTER (WHERE at NOT BETWEEN now() - interval '1 minute' AND now())
        FROM (
            SELECT received_at AS at FROM upstream.messages UNION ALL SELECT received_at FROM upstream.conflicts
            UNION ALL SELECT received_at FROM upstream.quarantine UNION ALL SELECT received_at FROM upstream.message_ids
        ) AS times
        """

    /// What a batch holds; the store takes each in another way.
    enum Kind: CaseIterable { case alone, several, conflict, quarantined }

    private func batch(_ kind: Kind, _ worker: SkewedWorker) -> [IncomingMessage] {
        switch kind {
        case .alone: [worker.message(2)]
        case .several: [worker.message(2), worker.message(3)]
        case .conflict: [worker.message(1).copy(fingerprint: 9)]
        case .quarantined: [worker.message(2, quarantine: .payloadNotJSON)]
        }
    }

    @Test(
        "times of 40 days ago, of the next century, or two minutes ahead are refused with nothing stored, and the clock is learned",
        arguments: Kind.allCases,
        [-40 * SkewedWorker.day, 36_500 * SkewedWorker.day, 120_000_000, -3_700_000_000]
    )
    func refuses(kind: Kind, ahead: Int64) async throws {
        let fixture = try await StoreFixture()
        let right = SkewedWorker(fixture, ahead: 0)
        // Known to the store, and its sender to the statement for one message.
        _ = try await right.store.commit([right.message(1)])
        let rows = try await fixture.text(Self.stored)
        let worker = SkewedWorker(fixture, ahead: ahead)
        let batch = batch(kind, worker)
        let error = await #expect(throws: StoreError.self) { try await worker.store.commit(batch) }
        #expect(error?.kind == .misdated && error?.sqlState == "UW004", "\(String(describing: error))")
        #expect(try await fixture.text(Self.stored) == rows)
        #expect(worker.clock.hasStepped(since: MonotonicTime(nanoseconds: batch[0].parsedAt)))
        // As it is known now.
        let again = self.batch(kind, worker)
        let outcomes = try await worker.store.commit(again)
        let outcome: StoreOutcome = kind == .conflict ? .conflict : kind == .quarantined ? .quarantined : .stored
        #expect(outcomes == [StoreOutcome](repeating: outcome, count: again.count))
        #expect(try await fixture.text(Self.stored)?.hasSuffix(" 0") == true)
    }

    @Test("a batch that waited an hour in an outage is not refused; an import may be of any day")
    func takes() async throws {
        let fixture = try await StoreFixture()
        let worker = SkewedWorker(fixture, ahead: 0)
        let waited = IncomingMessage.make(1, receivedAt: worker.clock.now() - 3_590_000_000)
        #expect(try await worker.store.commit([waited]) == [.stored])
        let old = IncomingMessage.make(2, receivedAt: worker.clock.now() - 400 * SkewedWorker.day)
        #expect(try await worker.store.load([old], isDelivered: false) == [.stored])
        #expect(try await fixture.count("messages") == 2)
    }

    @Test("a database that is set, or another one after a failover, is noticed by the next batch")
    func stepBetweenReadings() async throws {
        let fixture = try await StoreFixture()
        let worker = SkewedWorker(fixture, ahead: 0)
        #expect(try await worker.store.commit([worker.message(1)]) == [.stored])
        // As if the database had shown a time of 40 days ago until now.
        let now = ClockReading.Moment.now
        let past = now.wall - .microseconds(40 * SkewedWorker.day)
        worker.clock.learn(ClockReading(asked: now, database: past, answered: now))
        let error = await #expect(throws: StoreError.self) { try await worker.store.commit([worker.message(2)]) }
        #expect(error?.kind == .misdated)
        #expect(try await worker.store.commit([worker.message(2)]) == [.stored])
        #expect(try await fixture.text(Self.stored) == "4 0")
    }

    @Test(
        "a device's messages are handled in their order after a takeover, though the worker before had a clock 10 s ahead, or behind",
        arguments: [10_000_000, -10_000_000, 59_000_000]
    )
    func takeover(ahead: Int64) async throws {
        let fixture = try await DeliveriesFixture([.make("orders", ordering: .device)])
        var numbers: [UInt64] = []
        for (index, ahead) in [ahead, 0, ahead].enumerated() {
            let worker = SkewedWorker(fixture.store, ahead: ahead)
            // Its session is opened before it receives anything.
            let odd = worker.message(100 + UInt64(index), quarantine: .payloadNotJSON)
            _ = try await worker.store.commit([odd.copy(receivedAt: IncomingMessage.now())])
            for number in UInt64(index * 3 + 1)...UInt64(index * 3 + 3) {
                _ = try await worker.store.commit([worker.message(number)])
            }
        }
        for _ in 0..<9 {
            let claimed = try await fixture.claim(.make(ordered: true))
            numbers += claimed.map(\.number)
            _ = try await fixture.deliveries.settle(claimed.map { $0.settled(.done) }, of: "orders")
        }
        #expect(numbers == Array(1...9))
    }

    @Test("a day is kept for the hour more that its messages may have been stored later")
    func grace() async throws {
        let fixture = try await StoreFixture()
        let day = IncomingMessage.now() - 50 * SkewedWorker.day
        _ = try await fixture.store().load([.make(1, receivedAt: day)], isDelivered: false)
        try await Retention(fixture.admin).set(
            RetentionPolicy(messages: .seconds(30 * 86_400), dedupeWindow: .seconds(60 * 86_400)),
            by: .tester
        )
        // How long ago the day ended, without so many minutes.
        func keep(_ minutes: Int) async throws {
            try await fixture.script(
                """
                UPDATE upstream.retention_policy SET
                    messages = now() - (SELECT until FROM upstream.partitions() ORDER BY since LIMIT 1) - interval '\(minutes) minutes'
                """
            )
        }
        try await keep(58)
        #expect(try await Retention(fixture.admin, pace: .brisk).run().dropped.isEmpty)
        #expect(try await fixture.count("messages") == 1)
        try await keep(61)
        #expect(try await Retention(fixture.admin, pace: .brisk).run().dropped.count == 1)
    }
}
