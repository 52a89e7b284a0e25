import CCSEmulator
import Foundation
import Glibc
import Ingest
import MessageStore
import NIOCore
import Postgres
import Synchronization
import Vocabulary
import XMLWire
import XMPP

/// Measures the limit: the rate of a bare loop inserting the same rows in the same batches with as many writers.
struct BenchLimit {
    struct Result {
        var rowsPerSecond: Double
        var loopMicroseconds: Double
        var postgresMicroseconds: Double
    }

    private let batches: [[IncomingMessage]]
    private let warmUp: Int

    /// Cuts the messages into batches of these sizes; the first `warmUp` rows are not measured.
    init(_ messages: [IncomingMessage], sizes: [Int], warmUp: Int) {
        var batches: [[IncomingMessage]] = []
        var start = 0
        for size in sizes where start < messages.count {
            let end = min(messages.count, start + size)
            batches.append(Array(messages[start..<end]))
            start = end
        }
        self.batches = batches
        var rows = 0
        self.warmUp =
            batches.firstIndex { batch in
                rows += batch.count
                return rows >= warmUp
            }.map { $0 + 1 } ?? 0
    }

    func run(database: String, postgres server: Int32, writers: Int) async throws -> Result {
        let settings = try PostgresSettings(url: database)
        let stores = (0..<writers).map { _ in MessageStore(settings, senders: [BenchSite.senderID]) }
        try await insert(0..<warmUp, stores)
        let rows = batches[warmUp...].reduce(0) { $0 + $1.count }
        let before = (own: ProcessUsage.cpu(of: getpid()), postgres: ProcessUsage.cpu(ofFamily: server))
        let start = ContinuousClock.now
        try await insert(warmUp..<batches.count, stores)
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        let own = ProcessUsage.cpu(of: getpid()) - before.own
        let postgres = ProcessUsage.cpu(ofFamily: server) - before.postgres
        for store in stores { await store.close() }
        return Result(
            rowsPerSecond: Double(rows) / seconds,
            loopMicroseconds: own / Double(rows) * 1e6,
            postgresMicroseconds: postgres / Double(rows) * 1e6
        )
    }

    /// The median time of a transaction of one row, in seconds.
    static func singleCommit(_ messages: [IncomingMessage], database: String) async throws -> Double {
        let store = MessageStore(try PostgresSettings(url: database), senders: [BenchSite.senderID])
        var times: [Double] = []
        for message in messages {
            try Task.checkCancellation()
            let start = ContinuousClock.now
            _ = try await store.commit([message])
            times.append((ContinuousClock.now - start) / .seconds(1))
        }
        await store.close()
        // The first ones connect, prepare and fill caches.
        return Array(times.dropFirst(times.count / 10)).quantile(0.5) ?? 0
    }

    private func insert(_ range: Range<Int>, _ stores: [MessageStore]) async throws {
        let next = Counter(range.lowerBound)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for store in stores {
                group.addTask {
                    while let index = next.take(below: range.upperBound) {
                        try Task.checkCancellation()
                        _ = try await store.commit(batches[index])
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private final class Counter: Sendable {
        private let value: Atomic<Int>

        init(_ start: Int) { value = Atomic(start) }

        func take(below end: Int) -> Int? {
            let index = value.add(1, ordering: .relaxed).oldValue
            return index < end ? index : nil
        }
    }
}

/// The messages that the emulator sends and the limit inserts.
enum BenchLoad {
    /// The messages as they reach the store, framed and decoded in memory.
    static func messages(count: Int, size: Int) throws -> [IncomingMessage] {
        let emulator = EmulatorConfiguration()
        let address = StanzaAddress(from: emulator.stanzaFrom, to: "\(BenchSite.senderID)@\(emulator.domain)")
        let generator = LoadGenerator(profile: profile(count: count, connections: 1, size: size), address: address)
        var codec = UpstreamCodec(
            StreamSettings(
                senderID: BenchSite.senderID,
                domain: emulator.domain,
                trustedFrom: emulator.stanzaFrom.map { [$0] } ?? []
            )
        )
        let framer = XMLFramer()
        var result: [IncomingMessage] = []
        result.reserveCapacity(count)
        let header = """
            <stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>
            """
        var buffer = ByteBuffer(string: header)
        let start = Int64(Date().timeIntervalSince1970 * 1e6)
        for sequence in 0..<count {
            generator.append(sequence, to: &buffer)
            try buffer.withUnsafeReadableBytes { bytes in
                try framer.feed(bytes) { event in
                    guard case .stanza(let stanza) = event,
                        // No two share a time, as in the worker.
                        case .message(let message) = codec.decode(
                            stanza,
                            receivedAt: start + Int64(result.count),
                            parsedAt: 0
                        )
                    else { return }
                    result.append(message)
                }
            }
            buffer.clear()
        }
        guard result.count == count else { throw CommandFailure(.internalError, "the load could not be decoded") }
        return result
    }

    static func profile(count: Int, connections: Int, size: Int) -> LoadProfile {
        var profile = LoadProfile(count: count)
        profile.connections = connections
        profile.size = size...size
        profile.idPrefix = "bench"
        profile.idsAreScattered = true
        return profile
    }
}
