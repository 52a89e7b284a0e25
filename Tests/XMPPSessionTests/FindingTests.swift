import Dispatch
import Ingest
import IntegrationSupport
import NIOCore
import NIOPosix
import Synchronization
import TLSWire
import Telemetry
import Testing
import Vocabulary
import XMPP

@testable import DNS
@testable import XMPPSession

/// Knows every name, with these addresses.
private struct Addresses: Sendable {
    var found = ["127.0.0.1"]
    /// Names that nobody knows.
    var unknown: Set<String> = []
    let asked = Asked()

    final class Asked: Sendable { let names = Mutex<[String]>([]) }

    var resolver: AddressResolver {
        AddressResolver { host in
            asked.names.withLock { $0.append(host) }
            guard !unknown.contains(host), !found.isEmpty else { throw ResolveError(reason: "it has no address") }
            return found.compactMap { NetworkAddress($0) }
        }
    }
}

/// A server that notes the first bytes of each connection and hangs up.
private final class Listener: Sendable {
    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let owner: Listener
        init(_ owner: Listener) { self.owner = owner }
        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let bytes = Array(unwrapInboundIn(data).readableBytesView)
            owner.words.withLock { $0.append(bytes) }
            context.close(promise: nil)
        }
    }

    private let channel = Mutex<(any Channel)?>(nil)
    let words = Mutex<[[UInt8]]>([])
    var port: Int { channel.withLock { $0?.localAddress?.port ?? 0 } }

    static func start(_ host: String = "127.0.0.1", port: Int = 0) async throws -> Listener {
        let listener = Listener()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(listener))
                }
            }
            .bind(host: host, port: port).get()
        listener.channel.withLock { $0 = channel }
        return listener
    }

    func stop() async throws { try await channel.withLock { $0 }?.close().get() }

    /// What the connections began with: TLS, a stream, or something else.
    var kinds: [String] {
        words.withLock { words in
            words.map {
                $0.first == 0x16
                    ? "tls" : String(decoding: $0, as: UTF8.self).contains("<stream:stream") ? "stream" : "?"
            }
        }
    }
}

/// A domain's server, found by a real name server.
@Suite("Finding a domain's server", .timeLimit(.minutes(10)))
struct FindingTests {
    private static let direct = "_xmpps-client._tcp.example.org"
    private static let startTLS = "_xmpp-client._tcp.example.org"
    private let metrics = Metrics(senders: ["42"], categories: [], handlers: [], version: "test")

    private func settings(_ server: NameServer, _ resolver: Addresses) async throws -> SenderSettings {
        var client = TLSClientConfiguration(serverName: "example.org", applicationProtocol: "xmpp-client")
        client.trust = .pem(try CertificateAuthority().certificatePEM)
        let context = try TLSContext.client(client)
        var settings = try await Bench.settings()
        settings.host = "example.org"
        settings.resolver = resolver.resolver
        settings.discovery = ServerDiscovery(
            domain: "example.org",
            direct: context,
            startTLS: context,
            nameServers: try #require(NameServers(address: "127.0.0.1", port: UInt16(server.port)))
        )
        return settings
    }

    private func open(_ settings: SenderSettings, on eventLoop: any EventLoop) -> Connection {
        let connection = Connection(
            settings: SharedSettings(settings),
            on: eventLoop,
            environment: Connection.Environment(ingest: IngestQueue(), clock: ArrivalClock(), metrics: metrics),
            logger: .quiet
        )
        connection.open()
        return connection
    }

    private func end(_ settings: SenderSettings) async -> SessionEnd {
        await open(settings, on: MultiThreadedEventLoopGroup.singleton.next()).end.value
    }

    /// A port of 127.0.0.1 on which nobody listens.
    private func closedPort() async throws -> UInt16 {
        let listener = try await Listener.start()
        let port = UInt16(listener.port)
        try await listener.stop()
        return port
    }

    private func record(_ priority: UInt16, _ port: Int, _ target: String) -> (UInt16, UInt16, UInt16, String) {
        (priority, 0, UInt16(port), target)
    }

    @Test("the record says how TLS begins; the first in the order is taken, and every connection asks again")
    func found() async throws {
        let (tls, plain) = (try await Listener.start(), try await Listener.start())
        let server = try await NameServer.start([
            Self.direct: .records([record(10, tls.port, "tls.example.net.")]),
            Self.startTLS: .records([record(20, plain.port, "plain.example.net.")]),
        ])
        let resolver = Addresses()
        let settings = try await settings(server, resolver)
        let first = await end(settings)
        #expect(first.server?.target.host == "tls.example.net" && first.server?.target.isDirect == true)
        #expect(first.server?.address?.ipAddress == "127.0.0.1" && first.server?.address?.port == tls.port)
        #expect(first.server?.summary.contains("(127.0.0.1), TLS from the first byte") == true)
        #expect(tls.kinds == ["tls"] && plain.kinds == [])
        // SNI is the domain, whatever host the records name, and ALPN says what follows (XEP-0368).
        let hello = tls.words.withLock { String(decoding: $0.first ?? [], as: UTF8.self) }
        #expect(hello.contains("example.org") && !hello.contains("example.net") && hello.contains("xmpp-client"))

        server.set(Self.direct, .code(3))
        let second = await end(settings)
        #expect(second.server?.target.host == "plain.example.net" && second.server?.target.isDirect == false)
        #expect(tls.kinds == ["tls"] && plain.kinds == ["stream"])
        #expect(server.questions.count == 4)
        #expect(resolver.asked.names.withLock { $0 } == ["tls.example.net", "plain.example.net"])
        try await server.stop()
        try await tls.stop()
        try await plain.stop()
    }

    @Test("places that nobody listens at, or whose names nobody knows, are passed over, and come first again next time")
    func failover() async throws {
        let listener = try await Listener.start()
        let server = try await NameServer.start([
            Self.startTLS: .records([
                record(1, Int(try await closedPort()), "closed.test."), record(2, 5222, "unknown.test."),
                record(3, listener.port, "open.test."),
            ])
        ])
        var resolver = Addresses()
        resolver.unknown = ["unknown.test"]
        let settings = try await settings(server, resolver)
        for round in 1...2 {
            let end = await end(settings)
            #expect(end.server?.target.host == "open.test" && listener.kinds.count == round)
        }
        let names = ["closed.test", "unknown.test", "open.test"]
        #expect(resolver.asked.names.withLock { $0 } == names + names)
        try await server.stop()
        try await listener.stop()
    }

    @Test("a place that accepts connections and serves none hides no other")
    func failureBehindTCP() async throws {
        let (first, second) = (try await Listener.start(), try await Listener.start())
        let server = try await NameServer.start([
            Self.startTLS: .records([record(1, first.port, "first.test."), record(2, second.port, "second.test.")])
        ])
        let service = SenderService(
            settings: try await settings(server, Addresses()),
            group: MultiThreadedEventLoopGroup.singleton,
            environment: Connection.Environment(ingest: IngestQueue(), clock: ArrivalClock(), metrics: metrics),
            logger: .quiet
        )
        let running = Task { await service.run() }
        try await waitUntil("both are tried, the first again") { first.kinds.count >= 2 && second.kinds.count >= 1 }
        running.cancel()
        await running.value
        try await server.stop()
        try await first.stop()
        try await second.stop()
    }

    @Test("where no place can be connected to, the message names each with its reason")
    func unreachable() async throws {
        let port = Int(try await closedPort())
        let server = try await NameServer.start([
            Self.direct: .records([record(1, port, "a.test."), record(2, port, "b.test.")])
        ])
        let end = await end(try await settings(server, Addresses()))
        #expect(end.reason == .connectFailed && end.server == nil && end.ending == .failed)
        #expect(
            end.message.contains("a.test port \(port): Connection refused, nor to b.test port \(port)"),
            "\(end.message)"
        )
        try await server.stop()
    }

    @Test("a domain that offers nothing is an error that says so, and nothing is connected to")
    func declined() async throws {
        let server = try await NameServer.start([
            Self.direct: .records([record(0, 0, ".")]), Self.startTLS: .records([record(0, 0, ".")]),
        ])
        let resolver = Addresses()
        let end = await end(try await settings(server, resolver))
        #expect(end.reason == .connectFailed && end.message.contains("offers no XMPP"), "\(end.message)")
        #expect(resolver.asked.names.withLock { $0 } == [])
        try await server.stop()
    }

    @Test("an answer that does not fit is asked for over TCP; an alias is followed")
    func longAnswers() async throws {
        let listener = try await Listener.start()
        let server = try await NameServer.start([
            Self.direct: .long(.records([record(1, listener.port, "long.test.")])),
            Self.startTLS: .alias("other.test.", [record(2, 1, "alias.test.")]),
        ])
        let end = await end(try await settings(server, Addresses()))
        #expect(end.server?.target.host == "long.test")
        #expect(server.questions.contains(NameServer.Question(name: Self.direct, isTCP: true)))
        let servers = try #require(NameServers(address: "127.0.0.1", port: UInt16(server.port)))
        let alias = try await NIOThreadPool.singleton.runIfActive { try servers.services(Self.startTLS) }
        #expect(alias == .records([ServiceRecord(priority: 2, weight: 0, port: 1, target: "alias.test")]))
        try await server.stop()
        try await listener.stop()
    }

    @Test("name servers that fail, refuse, lie or answer nonsense leave the domain itself", arguments: [2, 5, 0, 1])
    func badServers(_ kind: UInt8) async throws {
        let reply: NameServer.Reply =
            kind == 0 ? .bytes([0xc0, 0xff, 1]) : kind == 1 ? .alias(Self.direct, []) : .code(kind)
        let server = try await NameServer.start([Self.direct: reply, Self.startTLS: reply])
        let resolver = Addresses(found: [])
        let end = await end(try await settings(server, resolver))
        #expect(end.reason == .connectFailed && end.message.contains("example.org port 5222"), "\(end.message)")
        #expect(resolver.asked.names.withLock { $0 } == ["example.org"])
        try await server.stop()
    }

    @Test("an address that does not answer holds up no other of its host (RFC 8305)")
    func racing() async throws {
        let hole = try await BlackHole.open()
        let listener = try await Listener.start("127.0.0.2", port: hole.port)
        let server = try await NameServer.start([Self.startTLS: .records([record(1, hole.port, "two.test.")])])
        let resolver = Addresses(found: ["127.0.0.1", "127.0.0.2"])
        var settings = try await settings(server, resolver)
        // Without the race this would be waited for.
        settings.connectTimeout = .hours(1)
        let end = await end(settings)
        #expect(end.server?.address?.ipAddress == "127.0.0.2")
        #expect(listener.kinds == ["stream"])
        try await server.stop()
        try await listener.stop()
        try await hole.close()
    }

    @Test("a host whose name servers are silent holds up no connection of its event loop")
    func silentHost() async throws {
        let (loop, gate, listener) = (
            MultiThreadedEventLoopGroup.singleton.next(), ThreadGate(), try await Listener.start()
        )
        var settings = try await Bench.settings()
        settings.port = listener.port
        settings.resolver = .blocking { host in
            if host == "silent.test" { gate.wait() }
            return ["127.0.0.1"].compactMap { NetworkAddress($0) }
        }
        settings.host = "silent.test"
        let silent = open(settings, on: loop)
        settings.host = "open.test"
        let end = await open(settings, on: loop).end.value
        #expect(end.server?.target.host == "open.test")
        silent.shutDown()
        #expect(await silent.end.value.server == nil)
        gate.open()
        try await listener.stop()
    }

    @Test("a look-up that ends after the connecting is heard by nobody")
    func lateAddresses() async throws {
        let (loop, gate) = (MultiThreadedEventLoopGroup.singleton.next(), ThreadGate())
        let resolver = AddressResolver.blocking { _ in
            gate.wait()
            return []
        }
        let addresses = HostAddresses(of: "late.test", port: 5235, by: resolver, on: loop)
        let found = addresses.initiateAQuery(host: "late.test", port: 5235)
        addresses.cancelQueries()
        await #expect(throws: CancellationError.self) { try await found.get() }
        gate.open()
    }

    @Test("a question without an answer is given up, while its thread still waits and the event loop does not")
    func silence() async throws {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let gate = ThreadGate()
        let finding = ServiceLookup.ask(within: .milliseconds(50), on: loop) { () throws(DNSError) in
            gate.wait()
            return .none
        }
        // The loop goes on meanwhile: this runs on it, and the time-out after that.
        try await loop.submit {}.get()
        #expect(try await finding.get() == .failure(.noAnswer))
        gate.open()
    }

    @Test("a question whose time was over before a thread was free is not asked")
    func tooLate() async throws {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let gate = ThreadGate()
        let blockers = (0..<ServiceLookup.threadCount).map { _ in
            ServiceLookup.ask(on: loop) { () throws(DNSError) in
                gate.wait()
                return .none
            }
        }
        let isAsked = Atomic(false)
        let late = ServiceLookup.ask(within: .milliseconds(10), on: loop) { () throws(DNSError) in
            isAsked.store(true, ordering: .relaxed)
            return .none
        }
        #expect(try await late.get() == .failure(.noAnswer))
        gate.open()
        for blocker in blockers { #expect(try await blocker.get() == .success(.none)) }
        // Behind it in the queue.
        _ = try await ServiceLookup.ask(on: loop) { () throws(DNSError) in .none }.get()
        let wasAsked = isAsked.load(ordering: .relaxed)
        #expect(!wasAsked)
    }
}

/// Lets threads wait until it is opened.
private final class ThreadGate: Sendable {
    private let group = DispatchGroup()

    init() { group.enter() }
    func open() { group.leave() }
    func wait() { group.wait() }
}
