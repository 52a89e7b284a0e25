import Logging
import NIOCore
import NIOEmbedded
import Pipeline
import TLSWire
import Telemetry
import Testing
import UpstreamKit
import XMLWire
import XMPP

@testable import XMPPSession

/// A sink that nobody calls: the tests settle with the handler themselves, as the connection does on its event loop.
final class IdleSink: AckSink {
    func settled(_ messages: [IncomingMessage]) {}
}

/// One session handler behind a real XML stream handler, on an embedded channel; the test is the server.
@MainActor
final class Bench {
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

    /// The settings of a sender; the transport does not matter to the handler unless it is STARTTLS.
    static func settings(
        window: Int = 100,
        startTLS: Bool = false,
        dialect: Dialect = .ccs
    ) throws -> SenderSettings {
        var client = TLSClientConfiguration(serverName: "localhost")
        client.trust = .pem(try CertificateAuthority().certificatePEM)
        let context = try TLSContext.client(client)
        return SenderSettings(
            index: 0,
            senderID: "42",
            host: "127.0.0.1",
            port: 1,
            domain: "fcm.example.org",
            connections: 1,
            security: startTLS ? .startTLS(context) : .direct(context),
            dialect: dialect,
            username: "42@fcm.example.org",
            window: window,
            idScope: .sender,
            trustedFrom: [],
            keepaliveInterval: .seconds(30),
            keepaliveTimeout: .seconds(15),
            limits: StreamLimits(),
            secret: { Array("hunter2".utf8) }
        )
    }

    let channel = EmbeddedChannel()
    let queue = IngestQueue()
    let metrics = Metrics(senders: ["42"], categories: [], handlers: [], version: "test")
    let handler: SessionHandler
    private let turnFuture: EventLoopFuture<ConnectionTurn>
    private let endFuture: EventLoopFuture<SessionEnd>

    init(
        _ settings: SenderSettings? = nil,
        purpose: Connection.Purpose = .receive,
        sink: any AckSink = IdleSink(),
        logger: Logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    ) throws {
        let loop = channel.embeddedEventLoop
        let turn = loop.makePromise(of: ConnectionTurn.self)
        let end = loop.makePromise(of: SessionEnd.self)
        turnFuture = turn.futureResult
        endFuture = end.futureResult
        handler = SessionHandler(
            settings: try settings ?? Bench.settings(),
            purpose: purpose,
            environment: Connection.Environment(ingest: queue, clock: ArrivalClock(), metrics: metrics),
            logger: logger,
            sink: sink,
            turn: turn,
            end: end
        )
        try channel.pipeline.syncOperations.addHandler(handler.stream)
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    /// A bench whose stream is bound, with nothing left to read.
    static func bound(_ settings: SenderSettings? = nil) throws -> Bench {
        let bench = try Bench(settings)
        try bench.connect()
        try bench.establishTLS()
        try bench.signIn()
        return bench
    }

    /// Begins, as ``Connection/open()`` does, and connects.
    func connect() throws {
        try #require(handler.begin(on: channel.embeddedEventLoop))
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
    }

    func establishTLS() throws {
        channel.pipeline.fireUserInboundEventTriggered(
            TLSEvent.established(version: "TLSv1.3", cipher: "TLS_AES_128_GCM_SHA256")
        )
    }

    /// Plays the server's side of the negotiation up to the bound stream.
    func signIn() throws {
        #expect(try written().contains("to=\"fcm.example.org\""))
        try read(Bench.header, Bench.mechanisms)
        #expect(try written().contains("mechanism=\"PLAIN\""))
        try read(Bench.success)
        #expect(try written().contains("<stream:stream"))
        try read(Bench.header, Bench.bindFeature)
        #expect(try written().contains("<bind"))
        try read(Bench.bindResult)
        #expect(try written() == "")
        #expect(gauges == [0, 1, 0])
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

    /// The copies that were handed over.
    func submitted() -> [IncomingMessage] { queue.take()?.messages ?? [] }

    /// Lets the copies arrive in one read and takes them out of the queue.
    func deliver(_ ids: String...) throws -> [IncomingMessage] {
        try channel.writeInbound(ByteBuffer(string: ids.map { Bench.message($0) }.joined()))
        let messages = submitted()
        #expect(messages.map(Bench.id) == ids)
        return messages
    }

    static func id(_ message: IncomingMessage) -> String {
        message.messageID.map { String(decoding: message.bytes[$0.range], as: UTF8.self) } ?? ""
    }

    var turn: ConnectionTurn? { value(turnFuture) }
    var end: SessionEnd? { value(endFuture) }
    /// Whether the channel reads by itself.
    var isReading: Bool {
        for case (let option as ChannelOptions.Types.AutoReadOption, let value as Bool) in channel.options {
            _ = option
            return value
        }
        return true
    }
    /// Connections in the states connecting, bound and draining.
    var gauges: [Int] { ConnectionState.allCases.map { metrics.connections(sender: 0, state: $0).value } }
    var acksSent: UInt64 { metrics.acks[.sent].value }
    var acksGone: UInt64 { metrics.acks[.connectionGone].value }
    var inFlight: Int { metrics.messages.snapshot().inFlight }

    private func value<Value: Sendable>(_ future: EventLoopFuture<Value>) -> Value? {
        var value: Value?
        future.assumeIsolated().whenSuccess { value = $0 }
        return value
    }

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
