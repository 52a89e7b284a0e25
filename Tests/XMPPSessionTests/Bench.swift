import Ingest
import IntegrationSupport
import Logging
import NIOCore
import NIOEmbedded
import TLSWire
import Telemetry
import Testing
import Vocabulary
import XMPP

@testable import XMPPSession

/// A sink that nobody calls: the tests settle with the handler themselves, as the connection does on its event loop.
final class IdleSink: AckSink {
    func settled(_ copies: SettledCopies) {}
}

extension StreamHandler where Delegate == MessageReceiver {
    /// All of these have committed.
    func settled(_ messages: [IncomingMessage]) { settled(SettledCopies(messages)) }
}

/// What the server says in these tests.
enum Server {
    static let header =
        "<?xml version='1.0'?><stream:stream from='fcm.example.org' id='1' version='1.0' xmlns='jabber:client' "
        + "xmlns:stream='http://etherx.jabber.org/streams'>"
    static let mechanisms =
        "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms>"
        + "</stream:features>"
    static let success = "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"
    static let bindFeature = "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>"
    static let bindResult =
        "<iq type='result'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>42@fcm.example.org/r</jid></bind></iq>"
    static let closingTag = "</stream:stream>"
    static let drainingControl = gcm(#"{"message_type":"control","control_type":"CONNECTION_DRAINING"}"#)

    static func gcm(_ json: String) -> String {
        "<message id=''><gcm xmlns='google:mobile:data'>\(json)</gcm></message>"
    }

    static func message(_ id: String, data: String = "{}") -> String {
        gcm(#"{"message_id":"\#(id)","from":"token-\#(id)","category":"com.example","data":\#(data)}"#)
    }
}

/// One stream handler behind a real parser, on an embedded channel; the test is the server.
@MainActor
class StreamBench<Delegate: StreamDelegate> {
    let channel = EmbeddedChannel()
    let handler: StreamHandler<Delegate>

    init(_ handler: StreamHandler<Delegate>) throws {
        self.handler = handler
        try channel.pipeline.syncOperations.addHandler(handler.stream)
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    /// Begins, as ``StreamHandler/connect(on:)`` does, and connects.
    func connect() throws {
        try #require(handler.begin(on: channel.embeddedEventLoop))
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
    }

    func establishTLS() throws {
        channel.pipeline.fireUserInboundEventTriggered(
            TLSEvent.established(version: "TLSv1.3", cipher: "TLS_AES_128_GCM_SHA256")
        )
    }

    /// Plays the server's side up to these features after authentication, and drops what was sent: the bind request is out.
    func requestBinding(_ features: String = Server.bindFeature) throws {
        try connect()
        try establishTLS()
        try read(Server.header, Server.mechanisms)
        try read(Server.success)
        try read(Server.header, features)
        _ = try writes()
    }

    /// Lets the texts arrive in one read of the socket.
    func read(_ texts: String...) throws {
        try channel.writeInbound(ByteBuffer(string: texts.joined()))
    }

    /// Everything that was sent since the last call.
    func written() throws -> String { try writes().joined() }

    /// What was sent since the last call, write by write.
    func writes() throws -> [String] {
        var writes: [String] = []
        while let buffer = try channel.readOutbound(as: ByteBuffer.self) { writes.append(String(buffer: buffer)) }
        return writes
    }

    /// Whether the channel reads by itself.
    var isReading: Bool {
        for case (let option as ChannelOptions.Types.AutoReadOption, let value as Bool) in channel.options {
            _ = option
            return value
        }
        return true
    }

    /// What has become of a future.
    func value<Value: Sendable>(_ future: EventLoopFuture<Value>) -> Value? {
        var value: Value?
        future.assumeIsolated().whenSuccess { value = $0 }
        return value
    }
}

/// A bench whose stream is only probed.
@MainActor
final class ProbeBench: StreamBench<StreamProbe> {
    private let endPromise = EmbeddedEventLoop().makePromise(of: ProbeReport.self)

    init(_ settings: SenderSettings) throws {
        try super.init(StreamHandler(settings: SharedSettings(settings), delegate: StreamProbe(endPromise)))
    }

    var report: ProbeReport? { value(endPromise.futureResult) }
    var end: SessionEnd? { report?.end }
}

/// A bench whose stream receives.
@MainActor
final class Bench: StreamBench<MessageReceiver> {
    /// The settings of a sender; the transport does not matter to the handler unless it is STARTTLS.
    static func settings(
        window: Int = 100,
        startTLS: Bool = false,
        dialect: Dialect = .ccs
    ) throws -> SenderSettings {
        var client = TLSClientConfiguration(serverName: "localhost")
        client.trust = .pem(try CertificateAuthority().certificatePEM)
        let context = try TLSContext.client(client)
        var stream = StreamSettings(senderID: "42", domain: "fcm.example.org", dialect: dialect)
        stream.username = stream.address
        stream.window = window
        // The server of these tests offers nothing else.
        stream.allowsPlain = true
        return SenderSettings(
            stream,
            host: "127.0.0.1",
            port: 1,
            security: startTLS ? .startTLS(context) : .direct(context),
            secret: { Array("hunter2".utf8) }
        )
    }

    let queue = IngestQueue()
    let metrics = Metrics(senders: ["42"], categories: [], handlers: [], version: "test")
    private let turnPromise = EmbeddedEventLoop().makePromise(of: ConnectionTurn.self)
    private let endPromise = EmbeddedEventLoop().makePromise(of: SessionEnd.self)

    init(
        _ settings: SenderSettings? = nil,
        sink: any AckSink = IdleSink(),
        suspended: SuspendedStream? = nil,
        logger: Logger = .quiet
    ) throws {
        let settings = SharedSettings(try settings ?? Bench.settings())
        let clock = ArrivalClock()
        let receiver = MessageReceiver(
            settings: settings,
            environment: Connection.Environment(ingest: queue, clock: clock, metrics: metrics),
            logger: logger,
            sink: sink,
            suspended: suspended,
            turn: turnPromise,
            end: endPromise
        )
        try super.init(StreamHandler(settings: settings, clock: clock, delegate: receiver))
    }

    /// A bench whose stream is bound, with nothing left to read.
    static func bound(_ settings: SenderSettings? = nil) throws -> Bench {
        let bench = try Bench(settings)
        try bench.connect()
        try bench.establishTLS()
        try bench.signIn()
        return bench
    }

    /// Plays the server's side of the negotiation up to the bound stream.
    func signIn() throws {
        #expect(try written().contains("to=\"fcm.example.org\""))
        try read(Server.header, Server.mechanisms)
        #expect(try written().contains("mechanism=\"PLAIN\""))
        try read(Server.success)
        #expect(try written().contains("<stream:stream"))
        try read(Server.header, Server.bindFeature)
        #expect(try written().contains("<bind"))
        try read(Server.bindResult)
        #expect(try written() == "")
        #expect(gauges == [0, 1, 0])
    }

    /// The copies that were handed over.
    func submitted() -> [IncomingMessage] { queue.take()?.messages ?? [] }

    /// Lets the copies arrive in one read and takes them out of the queue.
    func deliver(_ ids: String..., as stanza: (String) -> String = { Server.message($0) }) throws -> [IncomingMessage] {
        try channel.writeInbound(ByteBuffer(string: ids.map(stanza).joined()))
        let messages = submitted()
        #expect(messages.map(Bench.id) == ids)
        return messages
    }

    static func id(_ message: IncomingMessage) -> String {
        message.messageID.map { String(decoding: message.bytes[$0.range], as: UTF8.self) } ?? ""
    }

    var turn: ConnectionTurn? { value(turnPromise.futureResult) }
    var end: SessionEnd? { value(endPromise.futureResult) }
    /// Connections in the states connecting, bound and draining.
    var gauges: [Int] { ConnectionState.allCases.map { metrics.connections(sender: 0, state: $0).value } }
    var acksSent: UInt64 { metrics.acks[.sent].value }
    var acksGone: UInt64 { metrics.acks[.connectionGone].value }
    var inFlight: Int { metrics.messages.snapshot().inFlight }

    /// Takes the transport away and checks that the books are closed.
    func finish() {
        if channel.isActive { channel.close(promise: nil) }
        channel.embeddedEventLoop.run()
        #expect(gauges == [0, 0, 0])
        #expect(end != nil)
    }
}

/// A condition that did not come true in time.
struct Deadline: Error {}
