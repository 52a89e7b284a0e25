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
        let queue = IngestQueue(batchLimit: 7)
        let sinks = (0..<8).map { _ in RecordingSink() }
        let taken = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<3 {
                group.addTask {
                    var count = 0
                    while let batch = await queue.next() {
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

    @Test("Messages of one device stand in one line, in arrival order, however many lines and connections there are")
    func linesByDevice() async {
        let queue = IngestQueue(lines: 3, batchLimit: 4)
        let sinks = [RecordingSink(), RecordingSink()]
        var sent: [UInt64: [UInt8]] = [:]
        for step in 0..<20 as Range<UInt8> {
            var part = messages(step * 10...step * 10 + 9)
            for index in part.indices {
                part[index].deviceKey = Digest128(high: 9, low: UInt64(part[index].bytes[0] % 7))
                sent[part[index].deviceKey.low, default: []].append(part[index].bytes[0])
            }
            queue.submit(part, from: sinks[Int(step % 2)])
        }
        queue.finish()
        var taken: [UInt64: [UInt8]] = [:]
        var lines: [UInt64: Set<Int>] = [:]
        for line in 0..<3 {
            while let batch = await queue.next(line: line) {
                for message in batch.messages {
                    taken[message.deviceKey.low, default: []].append(message.bytes[0])
                    lines[message.deviceKey.low, default: []].insert(line)
                }
                batch.settle(0..<batch.messages.count)
            }
        }
        #expect(taken == sent)
        #expect(lines.values.allSatisfy { $0.count == 1 } && Set(lines.values.joined()).count == 3)
        #expect(sinks.allSatisfy { $0.calls.joined().count == 100 })
    }
}
