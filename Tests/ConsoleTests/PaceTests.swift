import ConsoleSupport
import IntegrationSupport
import NIOCore
import QuerySupport
import Synchronization
import Testing

@testable import Console

/// An answer of two megabytes, much more than the buffers on the way hold, taken at the client's pace.
@Suite struct PaceTests {
    private static let seeds = {
        let data = "\"" + String(repeating: "a", count: 250_000) + "\""
        return (1...10).map { Seed(id: "big\($0)", data: data, at: Int64($0)) }
    }()

    private static func request(_ header: String = "") throws -> String {
        let token = try #require(ConsoleHarness.Caller.viewer.token)
        let head = "GET /api/v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n"
        return head + header + "\r\n"
    }

    private static func isWhole(_ answer: String?) -> Bool { answer?.utf8.count ?? 0 > 2 << 20 }

    @Test(
        "who pauses within an answer gets all of it, longer than a connection may idle, and if it was the last one",
        arguments: ["", "Connection: close\r\n"]
    )
    func pause(_ header: String) async throws {
        var limits = ConsoleLimits()
        limits.idle = .milliseconds(1_500)
        try await ConsoleHarness.run(Self.seeds, limits: limits) { console in
            let connection = try RawConnection(console.port)
            connection.write(try Self.request(header))
            #expect(connection.wait())
            // Closed when it has idled.
            #expect(try RawConnection(console.port).readToEnd() == "")
            #expect(Self.isWhole(connection.answer()))
        }
    }

    @Test("who takes an answer slowly gets all of it")
    func slowly() async throws {
        var limits = ConsoleLimits()
        (limits.writeTime, limits.strangerIdle) = (.seconds(2), .milliseconds(200))
        try await ConsoleHarness.run(Self.seeds, limits: limits) { console in
            let connection = try RawConnection(console.port)
            connection.write(try Self.request("Connection: close\r\n"))
            let start = ContinuousClock.now
            var count = 0
            while let part = connection.read(), !part.isEmpty {
                count += part.utf8.count
                // For three times as long as nothing may be taken.
                guard ContinuousClock.now - start < .seconds(6) else { continue }
                #expect(try RawConnection(console.port).readToEnd() == "")
            }
            #expect(count > 2 << 20)
        }
    }

    @Test("an answer that a shutdown meets is taken to its end", arguments: ["", "Connection: close\r\n"])
    func shutdown(_ header: String) async throws {
        let held = Mutex<(connection: RawConnection, port: Int)?>(nil)
        async let answer: String? = {
            try await waitUntil { held.withLock { $0 } != nil }
            guard let (connection, port) = held.withLock({ $0 }) else { return nil }
            // Nobody is let in any more.
            try await waitUntil { (try? RawConnection(port)) == nil }
            return connection.answer()
        }()
        try await ConsoleHarness.run(Self.seeds) { console in
            let connection = try RawConnection(console.port)
            connection.write(try Self.request(header))
            #expect(connection.wait())
            held.withLock { $0 = (connection, console.port) }
        }
        #expect(Self.isWhole(try await answer))
    }
}
