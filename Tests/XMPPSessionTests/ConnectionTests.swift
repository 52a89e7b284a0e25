import Logging
import NIOCore
import NIOPosix
import Pipeline
import Telemetry
import Testing
import XMPP

@testable import XMPPSession

private struct NoSecret: Error, CustomStringConvertible {
    var description: String { "no such file" }
}

@Suite("Connections and the service that keeps them open", .timeLimit(.minutes(1)))
struct ConnectionTests {
    private let metrics = Metrics(senders: ["42"], categories: [], handlers: [], version: "test")
    private let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    private var environment: Connection.Environment {
        Connection.Environment(ingest: IngestQueue(), clock: ReceiptClock(), metrics: metrics)
    }
    private var gauges: [Int] { ConnectionState.allCases.map { metrics.connections(sender: 0, state: $0).value } }

    private func connection(_ settings: SenderSettings) -> Connection {
        Connection(
            settings: settings,
            on: MultiThreadedEventLoopGroup.singleton.next(),
            environment: environment,
            logger: logger
        )
    }

    /// A port of 127.0.0.1 on which nobody listens.
    private func freePort() async throws -> Int {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(channel.localAddress?.port)
        try await channel.close().get()
        return port
    }

    @Test("A secret that cannot be read ends the connection before it is made, and says why")
    func unreadableSecret() async throws {
        var settings = try await Bench.settings()
        settings.secret = { throw NoSecret() }
        let connection = connection(settings)
        connection.open()
        let end = await connection.ended
        #expect(end.reason == .authenticationFailed)
        #expect(end.message.contains("no such file"))
        #expect(end.ending == .failed)
        #expect(gauges == [0, 0, 0])
    }

    @Test("A port on which nobody listens is a failed connect, named with host and port")
    func refusedConnect() async throws {
        var settings = try await Bench.settings()
        settings.port = try await freePort()
        let connection = connection(settings)
        connection.open()
        let end = await connection.ended
        #expect(end.reason == .connectFailed)
        #expect(end.message.contains("127.0.0.1 port \(settings.port)"))
        #expect(gauges == [0, 0, 0])
    }

    @Test("An ended connection is let go of")
    func endedConnectionsAreFreed() async throws {
        var settings = try await Bench.settings()
        settings.secret = { throw NoSecret() }
        weak var freed: Connection?
        do {
            let connection = connection(settings)
            freed = connection
            connection.open()
            _ = await connection.ended
        }
        let deadline = ContinuousClock.now + .seconds(20)
        while freed != nil, ContinuousClock.now < deadline { await Task.yield() }
        #expect(freed == nil)
    }

    @Test("The service opens again after failures, and returns once it is cancelled")
    func serviceRetriesAndStops() async throws {
        var settings = try await Bench.settings()
        settings.port = try await freePort()
        settings.connections = 3
        let service = SenderService(
            settings: settings,
            group: .singleton,
            environment: environment,
            logger: logger
        )
        let running = Task { await service.run() }
        let deadline = ContinuousClock.now + .seconds(20)
        while metrics.reconnects[.connectFailed].value < 6, ContinuousClock.now < deadline { await Task.yield() }
        #expect(metrics.reconnects[.connectFailed].value >= 6)
        running.cancel()
        await running.value
        #expect(gauges == [0, 0, 0])
    }
}
