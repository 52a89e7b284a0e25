import Digests
import Foundation
import NIOCore
import NIOEmbedded
import NIOPosix
import Synchronization
import Testing

@testable import XMPP
@testable import XMPPSession

/// A job that a test lets go on.
final class Gate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    func wait() { semaphore.wait() }
    func open() { semaphore.signal() }
}

@MainActor @Suite("SCRAM's key is computed away from the event loops")
struct KeyDerivationTests {
    nonisolated private static func derivation(
        _ secret: String = "pencil",
        iterations: Int = 4_096,
        salt: UInt8 = 1
    ) -> KeyDerivation {
        KeyDerivation(hash: .sha256, secret: Secret(Array(secret.utf8)), salt: [salt], iterations: iterations)
    }

    /// The least and the most that a server may ask for.
    @Test("another connection's acks go out while a key is computed", arguments: [4_096, 1_000_000])
    func acksGoOut(_ iterations: Int) async throws {
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        let gate = Gate()
        pool.submit { _ in gate.wait() }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.next()
        let keys = KeyDeriver(pool: pool)
        let isDone = Mutex(false)
        let key = try await loop.submit {
            keys.key(for: KeyDerivationTests.derivation(iterations: iterations), on: loop).map { key in
                isDone.withLock { $0 = true }
                return key
            }
        }.get()
        // What the loop does in the meantime: everything else.
        for _ in 0..<100 { try await loop.submit {}.get() }
        #expect(isDone.withLock { $0 } == false)
        gate.open()
        #expect(try await key.get().bytes == KeyDerivationTests.derivation(iterations: iterations).run().bytes)
        try await pool.shutdownGracefully()
        try await group.shutdownGracefully()
    }

    @Test("a handler that waits for its key has another one's acks go out before its own answer")
    func twoConnections() async throws {
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        let gate = Gate()
        pool.submit { _ in gate.wait() }
        var settings = try Bench.settings(dialect: .xmpp)
        settings.keys = KeyDeriver(pool: pool)
        settings.negotiationTimeout = .hours(1)
        let loop = NIOAsyncTestingEventLoop()
        let (waiting, other) = (try SharedBench(settings, on: loop), try SharedBench(try Bench.settings(), on: loop))
        try await waiting.connect()
        try await other.connect()
        try await other.signIn()
        let auth = try await waiting.exchange(Server.header, SharedBench.scram)
        let nonce = try #require(SharedBench.payload(auth, "auth")?.split(separator: "r=").last)
        let challenge = Data("r=\(nonce)server,s=AAAA,i=1000000".utf8).base64EncodedString()
        let xml = "<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\(challenge)</challenge>"
        #expect(try await waiting.exchange(xml) == "")
        #expect(try await other.deliverAndSettle("1").contains("\"message_id\":\"1\""))
        #expect(try await waiting.written() == "")
        gate.open()
        var answer = ""
        let deadline = ContinuousClock.now + .seconds(60)
        while answer.isEmpty, ContinuousClock.now < deadline {
            await loop.run()
            answer = try await waiting.written()
        }
        #expect(SharedBench.payload(answer, "response")?.contains(",p=") == true, "\(answer)")
        await waiting.finish()
        await other.finish()
        try await pool.shutdownGracefully()
    }

    @Test("what was computed once costs nothing again, and another secret, salt or number of rounds is another key")
    func memory() async throws {
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        let keys = KeyDeriver(pool: pool)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.next()
        func key(_ derivation: KeyDerivation) async throws -> [UInt8] {
            try await keys.key(for: derivation, on: loop).get().bytes
        }
        let first = try await key(Self.derivation())
        var seen: Set = [first]
        for other in [
            Self.derivation("other"), Self.derivation(iterations: 4_097), Self.derivation(salt: 2),
        ] {
            #expect(seen.insert(try await key(other)).inserted)
        }
        // The pool is gone: only memory can answer.
        try await pool.shutdownGracefully()
        #expect(try await key(Self.derivation()) == first)
        await #expect(throws: (any Error).self) { try await key(Self.derivation("fifth")) }
        try await group.shutdownGracefully()
    }

    @Test("no more keys are remembered than a sender can use")
    func bounded() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let keys = KeyDeriver()
        for salt in UInt8(0)...20 {
            _ = try await keys.key(for: Self.derivation(salt: salt), on: group.next()).get()
        }
        #expect(keys.cachedCount == KeyDeriver.capacity)
        try await group.shutdownGracefully()
    }
}
