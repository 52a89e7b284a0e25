import DNS
import Ingest
import IntegrationSupport
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Telemetry
import Testing
import Vocabulary
import XMPP

@testable import XMPPSession

private struct NoSecret: Error, CustomStringConvertible {
    var description: String { "no such file" }
}

/// Keeps the first bytes that come, and hangs up.
private final class FirstWords: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    let text = Mutex("")

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        text.withLock { $0 += String(buffer: unwrapInboundIn(data)) }
        context.close(promise: nil)
    }
}

@Suite("Connections and the service that keeps them open", .timeLimit(.minutes(5)))
struct ConnectionTests {
    private let metrics = Metrics(senders: ["42"], categories: [], handlers: [], version: "test")
    private let logger = Logger.quiet
    private var environment: Connection.Environment {
        Connection.Environment(ingest: IngestQueue(), clock: ArrivalClock(), metrics: metrics)
    }
    private var gauges: [Int] { ConnectionState.allCases.map { metrics.connections(sender: 0, state: $0).value } }

    private func connection(_ settings: SenderSettings) -> Connection {
        Connection(
            settings: SharedSettings(settings),
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
        let end = await connection.end.value
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
        let end = await connection.end.value
        #expect(end.reason == .connectFailed)
        #expect(end.message.contains("127.0.0.1 port \(settings.port)"))
        #expect(gauges == [0, 0, 0])
    }

    @Test("Where a host's first address does not answer, the next one is taken", arguments: [true, false])
    func severalAddresses(startTLS: Bool) async throws {
        let words = FirstWords()
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { $0.pipeline.addHandler(words) }
            .bind(host: "127.0.0.2", port: 0).get()
        var settings = try await Bench.settings(startTLS: startTLS)
        settings.negotiationTimeout = .seconds(5)
        settings.port = try #require(server.localAddress?.port)
        settings.resolver = AddressResolver { _ in ["127.0.0.1", "127.0.0.2"].compactMap { NetworkAddress($0) } }
        let connection = connection(settings)
        connection.open()
        let end = await connection.end.value
        #expect(end.reason == (startTLS ? .negotiationFailed : .tlsFailed), "\(end.message)")
        #expect(!end.message.contains("no answer"), "\(end.message)")
        #expect(words.text.withLock { startTLS ? $0.contains("<stream:stream") : $0.utf8.first == 0x16 })
        #expect(gauges == [0, 0, 0])
        try await server.close().get()
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
            _ = await connection.end.value
        }
        try await waitUntil("it is freed") { freed == nil }
    }

    @Test("A sender's connections spread evenly over the event loops, and so do those of senders with one each")
    func spreadOverEventLoops() async throws {
        for (services, connections) in [(1, 4), (4, 1)] {
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
            let loops = Mutex<[ObjectIdentifier: Int]>([:])
            var settings = try await Bench.settings()
            settings.connections = connections
            settings.secret = {
                if let loop = MultiThreadedEventLoopGroup.currentEventLoop {
                    loops.withLock { $0[ObjectIdentifier(loop), default: 0] += 1 }
                }
                throw NoSecret()
            }
            let running = (0..<services).map { _ in
                let service = SenderService(settings: settings, group: group, environment: environment, logger: logger)
                return Task { await service.run() }
            }
            // Each slot goes on over its own event loop.
            try await waitUntil { loops.withLock { $0.count == 2 && $0.values.allSatisfy { $0 >= 2 } } }
            for task in running { task.cancel() }
            for task in running { await task.value }
            try await group.shutdownGracefully()
        }
    }
}
