import Glibc
import Synchronization
import Testing
import Vocabulary

@testable import DNS

@Suite("look-ups of names", .timeLimit(.minutes(1))) struct AddressResolverTests {
    /// Answers at once, except to names that begin with "dead": these block their look-up until it closes.
    private final class NameServer: Sendable {
        private static let deadNames = 100

        let asked = Mutex<[String: Int]>([:])
        /// Fulfilled when so many look-ups block.
        let isBlocked = Promise<Void>()
        private let pipe: (reader: CInt, writer: CInt)

        init() {
            var ends: [CInt] = [-1, -1]
            _ = Glibc.pipe(&ends)
            pipe = (ends[0], ends[1])
        }

        deinit { _ = Glibc.close(pipe.reader) }

        var deadNames: [String] { (1...Self.deadNames).map { "dead\($0)" } }

        func lookUp(_ host: String) throws -> [NetworkAddress] {
            let count = asked.withLock { asked in
                asked[host, default: 0] += 1
                return asked.count
            }
            if count == Self.deadNames { isBlocked.fulfil() }
            var byte: UInt8 = 0
            if host.hasPrefix("dead") { _ = read(pipe.reader, &byte, 1) }
            return ["192.0.2.1"].compactMap { NetworkAddress($0) }
        }

        func close() { _ = Glibc.close(pipe.writer) }
    }

    @Test("names whose look-ups block hold up no other, and whoever asks for one meanwhile starts no second look-up")
    func blocked() async throws {
        let server = NameServer()
        let resolver = AddressResolver.blocking { try server.lookUp($0) }
        await withTaskGroup(of: Int?.self) { group in
            for name in server.deadNames { group.addTask { try? await resolver.resolve(name).count } }
            await server.isBlocked.wait()
            #expect((try? await resolver.resolve("alive"))?.count == 1)
            for name in server.deadNames {
                let another = Task { try await resolver.resolve(name) }
                another.cancel()
                await #expect(throws: ResolveError.self) { try await another.value }
            }
            server.close()
            for await count in group { #expect(count == 1) }
        }
        #expect(server.asked.withLock { $0.values.allSatisfy { $0 == 1 } })
        #expect(try await resolver.resolve("dead1").count == 1)
        #expect(server.asked.withLock { $0["dead1"] } == 2)
    }
}
