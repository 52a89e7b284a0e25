import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import Vocabulary

@testable import Dispatcher
@testable import Ingest

/// A database that takes times of its own alone, and tells the worker its time when it refuses others.
private final class DatedWriter: MessageWriter {
    private let clock: DatabaseClock
    private let reading: ClockReading
    private let stored = Mutex<[Int64]>([])
    private let refusals = Mutex(0)
    /// How often it refuses whatever comes.
    private let stubborn: Int

    init(_ clock: DatabaseClock, _ reading: ClockReading, stubborn: Int = 0) {
        (self.clock, self.reading, self.stubborn) = (clock, reading, stubborn)
    }

    func commit(
        _ batch: [IncomingMessage],
        leasing offer: LeaseOffer,
        isRetry: Bool
    ) async throws(StoreError) -> [StoreOutcome] {
        let now = reading.database.microseconds
        let isRight = batch.allSatisfy { abs($0.receivedAt - now) < 60_000_000 }
        guard isRight, refusals.withLock({ $0 }) >= stubborn else {
            refusals.withLock { $0 += 1 }
            clock.learn(reading)
            throw StoreError(kind: .misdated, sqlState: nil, message: "misdated", failureClass: .other)
        }
        stored.withLock { $0 += batch.map(\.receivedAt) }
        return batch.map { _ in .stored }
    }

    var times: [Int64] { stored.withLock { $0 } }
    var refused: Int { refusals.withLock { $0 } }
}

@Suite("Times that the database refuses are given anew, by its clock")
struct StampTests {
    /// The database's time at the monotonic clock's zero.
    private static let start: Int64 = 1_700_000_000_000_000
    private static let day: Int64 = 86_400_000_000

    private static func monotonic(_ microseconds: Int64) -> MonotonicTime {
        MonotonicTime(nanoseconds: UInt64(microseconds) * 1_000)
    }

    /// A clock that has not asked yet, so much ahead, at a moment.
    private static func clock(ahead: Int64, at microseconds: Int64) -> DatabaseClock {
        let wall = Timestamp(microseconds: start + ahead)
        return DatabaseClock(.init(wall: wall, monotonic: monotonic(0))) { monotonic(microseconds) }
    }

    private static func reading(at microseconds: Int64) -> ClockReading {
        let moment = ClockReading.Moment(wall: Timestamp(microseconds: 0), monotonic: monotonic(microseconds))
        return ClockReading(asked: moment, database: Timestamp(microseconds: start + microseconds), answered: moment)
    }

    /// Messages of reads at these microseconds, stamped by a clock that is so much ahead.
    private static func messages(_ reads: [Int64], ahead: Int64) -> [IncomingMessage] {
        var messages = IntegrationSupport.messages(1...UInt8(reads.count))
        for (index, read) in reads.enumerated() {
            let own = UInt64(read) * 1_000
            messages[index].parsedAt = index == 0 ? own : max(own, messages[index - 1].parsedAt + 1_000)
            messages[index].receivedAt = start + ahead + Int64(messages[index].parsedAt / 1_000)
        }
        return messages
    }

    private func batch(_ messages: [IncomingMessage]) throws -> IngestBatch {
        let queue = IngestQueue()
        queue.submit(messages, from: RecordingSink())
        return try #require(queue.take())
    }

    @Test("a new time is that of its parsing, by the clock as it is known now")
    func anew() throws {
        let clock = Self.clock(ahead: -40 * Self.day, at: 9_000)
        clock.learn(Self.reading(at: 9_000))
        var batch = try batch(Self.messages([5_000, 5_000, 5_000, 6_000], ahead: -40 * Self.day))
        let before = batch.messages[0].receivedAt
        batch.stamp(1..<4, by: clock)
        #expect(batch.messages.map(\.receivedAt) == [before] + [5_001, 5_002, 6_000].map { Self.start + $0 })
    }

    @Test("messages keep their order and each its own time, over batches and over reads a microsecond apart")
    func split() throws {
        let clock = Self.clock(ahead: -40 * Self.day, at: 9_000)
        clock.learn(Self.reading(at: 9_000))
        let messages = Self.messages([5_000, 5_000, 5_000, 5_000, 5_001, 5_001], ahead: -40 * Self.day)
        var (first, second) = (try batch(Array(messages[..<3])), try batch(Array(messages[3...])))
        second.stamp(0..<3, by: clock)
        first.stamp(0..<3, by: clock)
        let times = (first.messages + second.messages).map(\.receivedAt)
        #expect(times == (5_000...5_005).map { Self.start + $0 })
        // Stamped again, as after a refusal.
        first.stamp(0..<3, by: clock)
        #expect(first.messages.map(\.receivedAt) == (5_000...5_002).map { Self.start + $0 })
    }

    @Test("what has waited for longer than the database takes gets the oldest time that it takes, in order")
    func old() throws {
        let now = 3 * 3_600_000_000 as Int64
        let clock = Self.clock(ahead: 0, at: now)
        let reads = [0, 60_000_000, now - 60_000_000]
        var batch = try batch(Self.messages(reads, ahead: 0))
        batch.stamp(0..<3, by: clock)
        let oldest = Self.start + now - (StampLimits.oldest - StampLimits.margin).microseconds
        #expect(batch.messages.map(\.receivedAt) == [oldest, oldest + 1, Self.start + reads[2]])
    }

    @Test("a plan stamps a range once, then waits for a database that refuses the new times as well")
    func plan() {
        var plan = CommitPlan(count: 2)
        _ = plan.begin()
        #expect(plan.misdated() == .stamp(0..<2, isRetry: false))
        #expect(plan.misdated() == .wait(attempt: 1, then: 0..<2))
        #expect(plan.misdated() == .stamp(0..<2, isRetry: true))
        #expect(plan.committed() == .done)
    }

    @Test(
        "a batch with times of another month, or of the next century, is stored by the database's",
        arguments: [-40, 36_500, 0]
    )
    func service(days: Int64) async {
        let clock = Self.clock(ahead: days * Self.day, at: 2_000_000)
        let writer = DatedWriter(clock, Self.reading(at: 2_000_000), stubborn: days == 0 ? 2 : 0)
        let queue = IngestQueue()
        let sink = RecordingSink()
        queue.submit(Self.messages([1_000_000, 1_000_000], ahead: days * Self.day), from: sink)
        queue.finish()
        await IngestService(
            queue: queue,
            writers: [writer],
            metrics: Metrics(senders: [], categories: [], handlers: [], version: "test"),
            logger: .quiet,
            clock: .manual,
            stamps: clock
        ).run()
        #expect(writer.times == [Self.start + 1_000_000, Self.start + 1_000_001])
        #expect(writer.refused == (days == 0 ? 2 : 1))
        #expect(sink.calls == [[1, 2]])
    }

    @Test(
        "what was stamped before the clock was learned is stamped anew before it is sent, unless it is ahead by little",
        arguments: [-10_000_000, 10_000_000, 61_000_000] as [Int64]
    )
    func before(ahead: Int64) async {
        let clock = Self.clock(ahead: ahead, at: 2_000_000)
        let writer = DatedWriter(clock, Self.reading(at: 2_000_000))
        let queue = IngestQueue()
        queue.submit(Self.messages([1_000_000], ahead: ahead), from: RecordingSink())
        queue.finish()
        clock.learn(Self.reading(at: 1_500_000))
        await IngestService(
            queue: queue,
            writers: [writer],
            metrics: Metrics(senders: [], categories: [], handlers: [], version: "test"),
            logger: .quiet,
            stamps: clock
        ).run()
        let kept: Int64 = ahead == 10_000_000 ? ahead : 0
        #expect(writer.times == [Self.start + 1_000_000 + kept] && writer.refused == 0)
    }
}
