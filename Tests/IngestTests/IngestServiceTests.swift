import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import Vocabulary

@testable import Dispatcher
@testable import Ingest

/// A dispatcher that takes everything, and keeps account of its offers.
private final class OpenIntake: DeliveryIntake {
    private let lease: Duration
    private let book = Mutex((open: 0, handedOver: 0))
    /// The token of the registration that was lost last; the next offers have another.
    private let token = Mutex<Int64>(7)

    init(lease: Duration) { self.lease = lease }

    func offer(for count: Int, bytes: Int) -> LeaseOffer {
        book.withLock { $0.open += 1 }
        return LeaseOffer(handlers: ["h"], local: ["h"], owner: "me", token: token.withLock(\.self), duration: lease)
    }

    func registrationLost(of offer: LeaseOffer) {
        token.withLock { $0 = offer.token + 1 }
    }

    func committed(_ offer: LeaseOffer, messages: [IncomingMessage], outcomes: [StoreOutcome]) {
        guard !offer.handlers.isEmpty else { return }
        book.withLock { ($0.open, $0.handedOver) = ($0.open - 1, $0.handedOver + messages.count) }
    }

    func withdrawn(_ offer: LeaseOffer) {
        guard !offer.handlers.isEmpty else { return }
        book.withLock { $0.open -= 1 }
    }

    /// Offers without an answer, and messages that were handed over.
    var account: (open: Int, handedOver: Int) { book.withLock { $0 } }
}

/// Looks at what the writer is doing when it is told of settled copies.
private final class LookingSink: AckSink {
    let progress = Mutex<LoopProgress?>(nil)
    let seen = Mutex<LoopProgress.Phase?>(nil)

    func settled(_ copies: SettledCopies) {
        let phase = progress.withLock { $0?.phase }
        seen.withLock { $0 = phase }
    }
}

/// Looks at the books whenever it is told of settled copies.
private final class AuditingSink: AckSink {
    private let metrics: Metrics
    private let settledTags = Mutex<[UInt8]>([])
    private let worst = Mutex(Int.max)

    init(_ metrics: Metrics) { self.metrics = metrics }

    func settled(_ copies: SettledCopies) {
        let messages = copies.messages
        settledTags.withLock { tags in
            tags += messages.map { $0.bytes[0] }
            // Inside the lock: writers settle side by side, and books read before another's tags would be too old.
            let books = metrics.messages.snapshot()
            let booked = StoreOutcome.allCases.reduce(0) { $0 + Int(books.settled($1)) }
            worst.withLock { $0 = min($0, booked - tags.count) }
        }
    }

    var tags: [UInt8] { settledTags.withLock { $0 } }
    /// The least by which the books were ahead of the acks; below zero, an ack went out before its copy was booked.
    var lead: Int { worst.withLock { $0 } }
}

@Suite("From the queue to the database and back to the connection", .timeLimit(.minutes(5)))
struct IngestServiceTests {
    private let queue = IngestQueue(batchLimit: 7)
    private let metrics = Metrics(senders: [], categories: [], handlers: [], version: "test")

    private func submit(_ tags: ClosedRange<UInt8>, _ sink: any AckSink) {
        metrics.messages.received(upstream: tags.count)
        queue.submit(messages(tags), from: sink)
    }

    private func service(_ writers: [any MessageWriter]) -> IngestService {
        IngestService(
            queue: queue,
            writers: writers,
            metrics: metrics,
            logger: .quiet
        )
    }

    @Test(
        "A late retry offers no lease, as an attempt whose reply was lost may have leased the rows long ago; it names its registration"
    )
    func leasesAfterAnOutage() async {
        for (lease, isLeased) in [
            (Duration.seconds(600), [true, true, true]), (.milliseconds(30), [true, false, false]),
        ] {
            let queue = IngestQueue()
            queue.submit(messages(1...3), from: RecordingSink())
            queue.finish()
            let writer = ScriptedWriter(outages: 2)
            let intake = OpenIntake(lease: lease)
            let service = IngestService(
                queue: queue,
                writers: [writer],
                metrics: metrics,
                logger: .quiet,
                clock: .manual,
                intake: intake
            )
            await service.run()
            #expect(writer.offers.map { !$0.handlers.isEmpty } == isLeased)
            #expect(writer.offers.allSatisfy { $0.token == 7 && $0.local == ["h"] })
            #expect(intake.account == (0, isLeased[2] ? 3 : 0))
        }
    }

    @Test(
        "Where the database does not know the registration, the dispatcher is told, and the batch comes again under the next one"
    )
    func registrationLost() async {
        let sink = RecordingSink()
        queue.submit(messages(1...3), from: sink)
        queue.finish()
        let writer = ScriptedWriter(unregistered: 1)
        let intake = OpenIntake(lease: .seconds(600))
        let service = IngestService(
            queue: queue,
            writers: [writer],
            metrics: metrics,
            logger: .quiet,
            clock: .manual,
            intake: intake
        )
        await service.run()
        #expect(writer.offers.map(\.token) == [7, 8] && writer.retries == [false, true])
        #expect(intake.account == (0, 3) && sink.calls.count == 1)
    }

    @Test("A copy is settled after its transaction has committed, and not a moment earlier")
    func settledAfterTheCommit() async {
        let sink = RecordingSink()
        let early = Mutex(0)
        let writer = ScriptedWriter(outages: 2) { early.withLock { $0 += sink.calls.count } }
        submit(1...3, sink)
        queue.finish()
        await service([writer]).run()
        #expect(early.withLock { $0 } == 0)
        #expect(writer.tries == [[1, 2, 3], [1, 2, 3], [1, 2, 3]])
        #expect(sink.calls == [[1, 2, 3]])
    }

    @Test("A copy from the archive is acked if its message is new; a live copy always is")
    func archivedCopies() {
        let sink = RecordingSink()
        var copies = messages(1...4)
        for index in copies.indices {
            copies[index].answer = .receipt(id: ByteSpan(start: 0, count: 1))
            copies[index].isArchived = index > 0
        }
        queue.submit(copies, from: sink)
        let batch = queue.take()
        batch?.settle(0..<4, [.duplicate, .stored, .duplicate, .quarantined])
        #expect(sink.copies.map(\.answer.isSent) == [true, true, false, false])
    }

    @Test("The books show an outcome before its ack can go out, and nothing is in flight at the end")
    func bookedBeforeSettled() async {
        let sink = AuditingSink(metrics)
        for start in stride(from: UInt8(1), to: 200, by: 10) { submit(start...start + 9, sink) }
        queue.finish()
        await service([ScriptedWriter(), ScriptedWriter()]).run()
        #expect(sink.tags.count == 200)
        #expect(sink.lead >= 0)
        #expect(metrics.messages.snapshot().inFlight == 0)
        #expect(metrics.messages.snapshot().settled(.stored) == 200)
    }

    @Test("Refused rows go to quarantine, their neighbours are stored, and every copy is settled exactly once")
    func refusedRows() async {
        let one = RecordingSink()
        let two = RecordingSink()
        submit(1...5, one)
        submit(6...9, two)
        submit(10...12, one)
        queue.finish()
        let writer = ScriptedWriter(refused: [1, 6, 7, 12])
        await service([writer]).run()
        #expect(writer.committed.sorted() == Array(1...12))
        #expect(writer.quarantined.sorted() == [1, 6, 7, 12])
        #expect(one.calls.joined().sorted() == [1, 2, 3, 4, 5, 10, 11, 12])
        #expect(two.calls.joined().sorted() == [6, 7, 8, 9])
        #expect(metrics.messages.snapshot().settled(.stored) == 8)
        #expect(metrics.messages.snapshot().settled(.quarantined) == 4)
        #expect(metrics.messages.snapshot().inFlight == 0)
    }

    @Test("An outage blames no row and counts as what it is")
    func outage() async {
        let sink = RecordingSink()
        submit(1...4, sink)
        queue.finish()
        let writer = ScriptedWriter(outages: 3, refused: [2])
        await service([writer]).run()
        #expect(writer.quarantined == [2])
        #expect(writer.tries.prefix(4).allSatisfy { $0 == [1, 2, 3, 4] })
        #expect(sink.calls.joined().sorted() == [1, 2, 3, 4])
        let errors = DatabaseErrorClass.allCases.reduce(0) { $0 + metrics.databaseErrors[$1].value }
        #expect(errors == UInt64(writer.tries.count) - UInt64(sink.calls.count))
    }

    @Test("What the database refuses while it can't commit a quarantine either is stored once it can")
    func refusesAll() async {
        let sink = RecordingSink()
        submit(1...4, sink)
        queue.finish()
        // Three to come down to a single row, then that row and its quarantine in turn.
        let writer = ScriptedWriter(refusesAll: 8, refused: [4])
        await service([writer]).run()
        #expect(writer.quarantined == [4])
        #expect(writer.committed.sorted() == [1, 2, 3, 4])
        #expect(sink.calls.joined().sorted() == [1, 2, 3, 4])
        #expect(metrics.messages.snapshot().settled(.stored) == 3)
    }

    @Test("Finishing loses nothing that was submitted before it")
    func finishDrains() async {
        let sinks = (0..<4).map { _ in RecordingSink() }
        let writers = (0..<3).map { _ in ScriptedWriter { await Task.yield() } }
        let running = Task { [service = service(writers)] in await service.run() }
        for sink in sinks {
            for _ in 0..<50 { submit(1...5, sink) }
        }
        queue.finish()
        await running.value
        #expect(sinks.allSatisfy { $0.calls.joined().count == 250 })
        #expect(writers.reduce(0) { $0 + $1.committed.count } == 1_000)
        #expect(metrics.messages.snapshot().inFlight == 0)
    }

    @Test("A writer that hangs keeps its own batch and its devices, and nothing else: all others are settled")
    func stuckWriter() async {
        let queue = IngestQueue(writers: 2, batchLimit: 7)
        let sink = RecordingSink()
        let (begun, hasBegun) = AsyncStream.makeStream(of: Void.self)
        let (freed, free) = AsyncStream.makeStream(of: Void.self)
        // Whoever gets the first batch hangs with it.
        let isStuck = Mutex(false)
        let writers = (0..<2).map { _ in
            ScriptedWriter {
                let isFirst = isStuck.withLock { stuck in
                    defer { stuck = true }
                    return !stuck
                }
                guard isFirst else { return }
                hasBegun.yield()
                for await _ in freed { break }
            }
        }
        func submit(_ tags: ClosedRange<UInt8>) {
            metrics.messages.received(upstream: tags.count)
            queue.submit(
                messages(tags).map {
                    var message = $0
                    message.deviceKey = Digest128(high: 1, low: UInt64($0.bytes[0] % 10) + 1)
                    return message
                },
                from: sink
            )
        }
        let service = IngestService(
            queue: queue,
            writers: writers,
            metrics: metrics,
            logger: .quiet
        )
        let running = Task { await service.run() }
        submit(1...3)
        for await _ in begun { break }
        // Too little for a second writer to begin at once; it does when the first is overdue.
        for start in stride(from: UInt8(11), through: 191, by: 10) { submit(start...start + 9) }
        let others: [UInt8] = (11...200).filter { !(1...3).contains($0 % 10) }
        await sink.waitUntilSettled(others.count)
        #expect(sink.calls.joined().sorted() == others)
        #expect(metrics.messages.snapshot().inFlight == 3 + 19 * 3)
        queue.finish()
        free.yield()
        await running.value
        #expect(sink.calls.joined().count == 193)
        for digit in 0..<10 as Range<UInt8> {
            let order = sink.calls.joined().filter { $0 % 10 == digit }
            #expect(order == order.sorted())
        }
    }

    @Test(
        "A limit of our own cuts the batch until it commits, and what was tried is asked for by key first; all are acked once"
    )
    func timeOuts() async {
        let sink = RecordingSink()
        submit(1...7, sink)
        queue.finish()
        let writer = ScriptedWriter(largest: 2)
        await service([writer]).run()
        #expect(writer.tries == [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3], [1], [2, 3], [4, 5, 6, 7], [4, 5], [6, 7]])
        #expect(writer.retries == [false, true, true, true, true, true, true])
        #expect(Array(sink.calls.joined()) == [1, 2, 3, 4, 5, 6, 7])
        #expect(metrics.messages.snapshot().inFlight == 0)
    }

    @Test("A writer waits while the database has a batch, however long, and works while it settles what has committed")
    func progress() async {
        let (begun, hasBegun) = AsyncStream.makeStream(of: Void.self)
        let (freed, free) = AsyncStream.makeStream(of: Void.self)
        let writer = ScriptedWriter {
            hasBegun.yield()
            for await _ in freed { break }
        }
        let sink = LookingSink()
        submit(1...3, sink)
        let service = service([writer])
        sink.progress.withLock { $0 = service.progress[0] }
        let running = Task { await service.run() }
        for await _ in begun { break }
        #expect(service.progress[0].phase == .awaiting)
        #expect(service.progress[0].silence(now: .now + .seconds(3600)) == .zero)
        free.yield()
        queue.finish()
        await running.value
        #expect(sink.seen.withLock { $0 } == .working)
        #expect(service.progress[0].phase == .idle)
    }

    @Test("A try after an outage is a retry, the first of a batch is not")
    func retries() async {
        let sink = RecordingSink()
        submit(1...14, sink)
        queue.finish()
        let writer = ScriptedWriter(outages: 2, refused: [3])
        await service([writer]).run()
        #expect(writer.retries.prefix(3) == [false, true, true])
        // A new batch after the outage has not been tried before.
        let second = writer.tries.firstIndex { $0 == [8, 9, 10, 11, 12, 13, 14] }
        #expect(second.map { writer.retries[$0] } == false)
    }

    @Test("While messages wait, no pause between two tries is longer than half a second")
    func probes() {
        #expect(IngestService.retry.ceiling(attempt: .max) <= .milliseconds(500))
    }

    @Test("Cancelled while the database is down, the service ends and settles nothing")
    func cancelledInAnOutage() async {
        let sink = RecordingSink()
        submit(1...2, sink)
        let (tried, continuation) = AsyncStream.makeStream(of: Void.self)
        let writer = ScriptedWriter(outages: .max) { continuation.yield() }
        let running = Task { [service = service([writer])] in await service.run() }
        for await _ in tried { break }
        running.cancel()
        await running.value
        #expect(sink.calls.isEmpty)
        #expect(metrics.messages.snapshot().inFlight == 2)
    }
}
