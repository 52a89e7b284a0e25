import IntegrationSupport
import Synchronization
import Testing
import Vocabulary

@testable import Ingest

/// Records what is settled with it.
final class RecordingSink: AckSink {
    private struct State {
        var batches: [[IncomingMessage]] = []
        var count = 0
        var waiting: (count: Int, continuation: CheckedContinuation<Void, Never>)?
    }

    private let state = Mutex(State())

    func settled(_ copies: SettledCopies) {
        let messages = copies.messages
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.batches.append(messages)
            state.count += messages.count
            guard let waiting = state.waiting, state.count >= waiting.count else { return nil }
            state.waiting = nil
            return waiting.continuation
        }
        waiter?.resume()
    }

    /// Returns once so many messages have been settled; for one task.
    func waitUntilSettled(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.count >= count { return true }
                state.waiting = (count, continuation)
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    var copies: [IncomingMessage] { state.withLock { $0.batches.flatMap(\.self) } }

    /// The first byte of every settled message, call by call.
    var calls: [[UInt8]] { state.withLock { $0.batches.map { $0.map { $0.bytes[0] } } } }
}

@Suite("The queue between connections and writers", .timeLimit(.minutes(10)))
struct IngestQueueTests {
    @Test("A batch takes all that waits, in arrival order, up to the limit, and splits a submission where it must")
    func takesUpToLimit() async throws {
        let queue = IngestQueue(batchLimit: 5)
        let sink = RecordingSink()
        queue.submit(messages(1...3), from: sink)
        queue.submit(messages(4...9), from: sink)
        let first = try #require(await queue.next())
        let second = try #require(queue.take())
        #expect(first.messages.map { $0.bytes[0] } == [1, 2, 3, 4, 5])
        #expect(second.messages.map { $0.bytes[0] } == [6, 7, 8, 9])
        #expect(queue.take() == nil)
    }

    @Test("Each connection gets its own copies back, in one call, whatever part of the batch has committed")
    func settlesWithTheRightConnection() async throws {
        let queue = IngestQueue()
        let one = RecordingSink()
        let two = RecordingSink()
        queue.submit(messages(1...2), from: one)
        queue.submit(messages(3...5), from: two)
        queue.submit(messages(6...7), from: one)
        let batch = try #require(await queue.next())
        batch.settle(1..<4)
        #expect(one.calls == [[2]])
        #expect(two.calls == [[3, 4]])
        batch.settle(4..<7)
        #expect(one.calls == [[2], [6, 7]])
        #expect(two.calls == [[3, 4], [5]])
        batch.settle(0..<7)
        #expect(one.calls.last == [1, 2, 6, 7] && one.calls.count == 3)
        #expect(two.calls.last == [3, 4, 5] && two.calls.count == 3)
    }

    @Test("A writer that waits gets what comes; a finished queue gives the rest and then nil")
    func waitsAndFinishes() async {
        let queue = IngestQueue()
        let sink = RecordingSink()
        async let taken = queue.next()
        queue.submit(messages(1...1), from: sink)
        #expect(await taken?.messages.count == 1)
        queue.submit(messages(2...2), from: sink)
        queue.finish()
        #expect(await queue.next()?.messages.count == 1)
        #expect(await queue.next() == nil)
    }

    @Test("Many connections and writers at once: every message is taken and settled exactly once")
    func concurrent() async {
        let queue = IngestQueue(writers: 3, batchLimit: 7)
        let sinks = (0..<8).map { _ in RecordingSink() }
        let taken = await withTaskGroup(of: Int.self) { group in
            for writer in 0..<3 {
                group.addTask {
                    var count = 0
                    while let batch = await queue.next(writer: writer) {
                        count += batch.messages.count
                        batch.settle(0..<batch.messages.count)
                    }
                    return count
                }
            }
            await withTaskGroup(of: Void.self) { senders in
                for sink in sinks {
                    senders.addTask {
                        for _ in 0..<200 { queue.submit(messages(1...5), from: sink) }
                    }
                }
            }
            queue.finish()
            return await group.reduce(0, +)
        }
        #expect(taken == 8 * 200 * 5)
        #expect(sinks.allSatisfy { $0.calls.joined().count == 1000 })
    }

    @Test("A batch is bounded by bytes as well as rows; a message beyond the bound goes alone")
    func boundedByBytes() {
        let queue = IngestQueue(batchLimit: 5, byteLimit: 100)
        let sizes = [40, 60, 1, 300, 50, 50, 1, 1, 1, 1, 1, 1]
        queue.submit(
            sizes.map {
                IncomingMessage(
                    kind: .upstream,
                    bytes: [UInt8](repeating: 0, count: $0),
                    stanza: ByteSpan(start: 0, count: 1)
                )
            },
            from: RecordingSink()
        )
        var batches: [[Int]] = []
        while let batch = queue.take() { batches.append(batch.messages.map(\.bytes.count)) }
        #expect(batches == [[40, 60], [1], [300], [50, 50], [1, 1, 1, 1, 1], [1]])
    }

    /// Messages whose first byte is their tag, of the devices that a rule gives them.
    private func labelled(_ tags: ClosedRange<UInt8>, device: (UInt8) -> UInt64) -> [IncomingMessage] {
        tags.map { tag in
            var message = IncomingMessage(kind: .upstream, bytes: [tag], stanza: ByteSpan(start: 0, count: 1))
            message.deviceKey = Digest128(high: 9, low: device(tag))
            return message
        }
    }

    @Test("What belongs to a device under way waits for its batch; everything else is the free writer's")
    func pinnedDevices() {
        let queue = IngestQueue(writers: 2, batchLimit: 10)
        let sink = RecordingSink()
        queue.submit(labelled(1...10) { UInt64($0 % 5) }, from: sink)
        let first = queue.take(writer: 0)
        #expect(first?.messages.count == 10)
        // Devices 0 to 4 are under way; 5 to 9 are not.
        queue.submit(labelled(11...20) { UInt64($0 % 10) }, from: sink)
        queue.submit(labelled(21...30) { UInt64($0 % 10) }, from: sink)
        #expect(queue.take(writer: 1)?.messages.map { $0.bytes[0] } == [15, 16, 17, 18, 19])
        #expect(queue.take(writer: 1)?.messages.map { $0.bytes[0] } == [25, 26, 27, 28, 29])
        #expect(queue.take(writer: 1) == nil)
        // What was held back comes first, once the batch is done, and in its order.
        #expect(queue.take(writer: 0)?.messages.map { $0.bytes[0] } == [11, 12, 13, 14, 20, 21, 22, 23, 24, 30])
        #expect(queue.take(writer: 1) == nil && queue.take(writer: 0) == nil)
    }

    @Test(
        "Batches stay large: a second writer begins with a full batch, as much as the first is at, or when that is overdue"
    )
    func secondWriter() {
        let queue = IngestQueue(writers: 2, batchLimit: 100)
        let sink = RecordingSink()
        queue.submit(labelled(1...80) { UInt64($0) }, from: sink)
        #expect(queue.take(writer: 0)?.messages.count == 80)
        queue.submit(labelled(81...150) { UInt64($0) }, from: sink)
        #expect(queue.take(writer: 1) == nil)
        queue.submit(labelled(151...160) { UInt64($0) }, from: sink)
        #expect(queue.take(writer: 1)?.messages.count == 80)
        queue.submit(labelled(161...163) { UInt64($0) }, from: sink)
        #expect(queue.take(writer: 1) == nil)
        queue.lookForOverdue(.now)
        #expect(queue.take(writer: 1) == nil)
        queue.lookForOverdue(.now + .seconds(1))
        #expect(queue.take(writer: 1)?.messages.count == 3)
    }

    @Test("Since when the oldest message waits: in line, under way, or held back; nil when all is settled")
    func oldest() {
        let queue = IngestQueue(writers: 2)
        #expect(queue.oldest == nil)
        let before = ContinuousClock.now
        queue.submit(labelled(1...3) { _ in 1 }, from: RecordingSink())
        let after = ContinuousClock.now
        func isFirst() -> Bool { queue.oldest.map { $0 >= before && $0 <= after } ?? false }
        #expect(isFirst())
        _ = queue.take(writer: 0)
        #expect(isFirst())
        queue.submit(labelled(4...4) { _ in 1 }, from: RecordingSink())
        queue.lookForOverdue(.now + .seconds(1))
        #expect(queue.take(writer: 1) == nil)
        #expect(isFirst())
        #expect(queue.take(writer: 0)?.messages.count == 1)
        #expect(queue.oldest.map { $0 > after } == true)
        #expect(queue.take(writer: 0) == nil)
        #expect(queue.oldest == nil)
    }

    @Test(
        "Under every schedule of submissions, batches and ends, no device is in two batches at once, and its order holds"
    )
    func orderUnderAnySchedule() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let writers = Int.random(in: 1...4, using: &random)
            let queue = IngestQueue(writers: writers, batchLimit: Int.random(in: 1...20, using: &random), byteLimit: 30)
            let sinks = [RecordingSink(), RecordingSink()]
            var sent: [UInt64: [UInt8]] = [:]
            var settled: [UInt64: [UInt8]] = [:]
            var underWay: [IngestBatch?] = Array(repeating: nil, count: writers)
            func end(_ writer: Int) {
                guard let batch = underWay[writer] else { return }
                for message in batch.messages { settled[message.deviceKey.low, default: []].append(message.bytes[0]) }
                batch.settle(batch.messages.indices)
                underWay[writer] = nil
            }
            func step(_ writer: Int) {
                end(writer)
                underWay[writer] = queue.take(writer: writer)
                let devices = underWay.map { Set($0?.messages.map(\.deviceKey.low) ?? []) }
                for (one, other) in zip(devices.indices, devices.indices.dropFirst()) {
                    #expect(devices[one].isDisjoint(with: devices[other]))
                }
                #expect(Set(devices.joined()).count == devices.reduce(0) { $0 + $1.count })
            }
            for tag in 0..<200 as Range<UInt8> {
                let part = labelled(tag...tag) { _ in UInt64.random(in: 1...12, using: &random) }
                sent[part[0].deviceKey.low, default: []].append(tag)
                queue.submit(part, from: sinks[Int(tag % 2)])
                if Int.random(in: 0..<10, using: &random) == 0 { queue.lookForOverdue(.now + .seconds(9)) }
                if Int.random(in: 0..<4, using: &random) == 0 { step(.random(in: 0..<writers, using: &random)) }
            }
            queue.finish()
            while settled.values.reduce(0, { $0 + $1.count }) < 200 {
                step(.random(in: 0..<writers, using: &random))
            }
            #expect(settled == sent)
            #expect(sinks.allSatisfy { $0.calls.joined().count == 100 })
            #expect(queue.oldest == nil || underWay.contains { $0 != nil })
        }
    }
}
