import Synchronization
import Testing
import UpstreamKit

@testable import Pipeline

/// Records what is settled with it.
final class RecordingSink: AckSink {
    private let batches = Mutex<[[IncomingMessage]]>([])

    func settled(_ messages: [IncomingMessage]) {
        batches.withLock { $0.append(messages) }
    }

    /// The first byte of every settled message, call by call.
    var calls: [[UInt8]] { batches.withLock { $0.map { $0.map { $0.bytes[0] } } } }
}

/// Messages told apart by their only byte.
func messages(_ tags: ClosedRange<UInt8>) -> [IncomingMessage] {
    tags.map { IncomingMessage(kind: .upstream, bytes: [$0], stanza: ByteSpan(start: 0, count: 1)) }
}

@Suite("The queue between connections and writers")
struct IngestQueueTests {
    @Test("A batch takes all that waits, in arrival order, up to the limit, and splits a submission where it must")
    func takesUpToLimit() async throws {
        let queue = IngestQueue()
        let sink = RecordingSink()
        queue.submit(messages(1...3), from: sink)
        queue.submit(messages(4...9), from: sink)
        let first = try #require(await queue.next(limit: 5))
        let second = try #require(await queue.next(limit: 500))
        #expect(first.messages.map { $0.bytes[0] } == [1, 2, 3, 4, 5])
        #expect(second.messages.map { $0.bytes[0] } == [6, 7, 8, 9])
    }

    @Test("Each connection gets its own copies back, in one call, whatever part of the batch has committed")
    func settlesWithTheRightConnection() async throws {
        let queue = IngestQueue()
        let one = RecordingSink()
        let two = RecordingSink()
        queue.submit(messages(1...2), from: one)
        queue.submit(messages(3...5), from: two)
        queue.submit(messages(6...7), from: one)
        let batch = try #require(await queue.next(limit: 100))
        batch.settle(1..<4)
        #expect(one.calls == [[2]])
        #expect(two.calls == [[3, 4]])
        batch.settle(4..<7)
        #expect(one.calls == [[2], [6, 7]])
        #expect(two.calls == [[3, 4], [5]])
    }

    @Test("A writer that waits gets what comes; a finished queue gives the rest and then nil")
    func waitsAndFinishes() async {
        let queue = IngestQueue()
        let sink = RecordingSink()
        async let taken = queue.next(limit: 10)
        queue.submit(messages(1...1), from: sink)
        #expect(await taken?.messages.count == 1)
        queue.submit(messages(2...2), from: sink)
        queue.finish()
        #expect(await queue.next(limit: 10)?.messages.count == 1)
        #expect(await queue.next(limit: 10) == nil)
    }

    @Test("Many connections and writers at once: every message is taken and settled exactly once")
    func concurrent() async {
        let queue = IngestQueue()
        let sinks = (0..<8).map { _ in RecordingSink() }
        let taken = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<3 {
                group.addTask {
                    var count = 0
                    while let batch = await queue.next(limit: 7) {
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
}
