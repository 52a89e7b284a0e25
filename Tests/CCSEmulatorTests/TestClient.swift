import CCSEmulator
import Foundation
import NIOCore
import NIOPosix
import TLSWire
import Testing

/// A receiver made of text operations, so that no parser that the emulator shares with the worker judges the emulator.
final class TestClient: Sendable {
    struct Message: Sendable, Equatable {
        var id: String
        var from: String
        var stanza: String
    }

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    private let channel: any Channel
    private let inbox: NIOLoopBound<Inbox>

    private init(channel: any Channel, inbox: NIOLoopBound<Inbox>) {
        self.channel = channel
        self.inbox = inbox
    }

    static func connect(to emulator: Emulator, tls: Bool = true) async throws -> TestClient {
        let context = tls ? try Self.tlsContext(emulator) : nil
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let context { try channel.pipeline.syncOperations.addHandler(TLSHandler(context: context)) }
                    try channel.pipeline.syncOperations.addHandler(Inbox())
                }
            }
            .connect(host: "127.0.0.1", port: emulator.port).get()
        let inbox = try await channel.eventLoop.submit {
            try NIOLoopBound(channel.pipeline.syncOperations.handler(type: Inbox.self), eventLoop: channel.eventLoop)
        }.get()
        return TestClient(channel: channel, inbox: inbox)
    }

    private static func tlsContext(_ emulator: Emulator) throws -> TLSContext {
        var configuration = TLSClientConfiguration(serverName: "localhost")
        configuration.trust = .pem(emulator.authorityPEM ?? [])
        return try TLSContext.client(configuration)
    }

    /// Signs in and binds; what follows are messages.
    static func bound(to emulator: Emulator, sender: String = "42", tls: Bool = true) async throws -> TestClient {
        let client = try await connect(to: emulator, tls: tls)
        try await client.signIn(sender: sender)
        return client
    }

    func signIn(sender: String = "42", secret: String = "secret") async throws {
        try await open()
        try await read(through: "</stream:features>")
        try await send(auth(sender, secret))
        try await read(through: "<success xmlns=\"urn:ietf:params:xml:ns:xmpp-sasl\"/>")
        try await open()
        try await read(through: "</stream:features>")
        try await send("<iq type='set' id='b1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
        let result = try await read(through: "</iq>")
        #expect(result.contains("<jid>\(sender)@gcm.googleapis.com/"))
        #expect(result.contains("id=\"b1\""))
    }

    func auth(_ sender: String, _ secret: String) -> String {
        let plain = Data("\0\(sender)@gcm.googleapis.com\0\(secret)".utf8).base64EncodedString()
        return "<auth mechanism='PLAIN' xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\(plain)</auth>"
    }

    func open() async throws {
        try await send(
            "<stream:stream to='gcm.googleapis.com' version='1.0' xmlns='jabber:client' "
                + "xmlns:stream='http://etherx.jabber.org/streams'>"
        )
    }

    /// STARTTLS, after the first features were read.
    func upgrade(_ emulator: Emulator) async throws {
        try await send("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
        try await read(through: "<proceed xmlns=\"urn:ietf:params:xml:ns:xmpp-tls\"/>")
        let context = try Self.tlsContext(emulator)
        try await channel.eventLoop.submit { [channel] in
            try channel.pipeline.syncOperations.addHandler(TLSHandler(context: context), position: .first)
        }.get()
    }

    func send(_ text: String) async throws {
        try await channel.writeAndFlush(ByteBuffer(string: text)).get()
    }

    /// Reads up to the first occurrence of a text and returns what came, the text included.
    @discardableResult
    func read(through mark: String, within limit: TimeAmount = .seconds(10)) async throws -> String {
        let inbox = self.inbox
        return try await channel.eventLoop.flatSubmit { inbox.value.take(mark, limit) }.get()
    }

    @discardableResult
    func nextMessage() async throws -> Message {
        let stanza = try await read(through: "</message>")
        let json = try unwrap(stanza)
        guard let id = json["message_id"] as? String, let from = json["from"] as? String else {
            throw Failure(description: "not an upstream message: \(stanza)")
        }
        return Message(id: id, from: from, stanza: stanza)
    }

    func messages(_ count: Int) async throws -> [Message] {
        var result: [Message] = []
        for _ in 0..<count { result.append(try await nextMessage()) }
        return result
    }

    func ack(_ message: Message) async throws { try await ack(id: message.id, to: message.from) }

    func ack(id: String, to: String) async throws {
        let json = try JSONSerialization.data(
            withJSONObject: ["to": to, "message_id": id, "message_type": "ack"],
            options: .withoutEscapingSlashes
        )
        try await send(
            "<message id=''><gcm xmlns='google:mobile:data'>\(XMLEscape.string(String(decoding: json, as: UTF8.self)))</gcm></message>"
        )
    }

    /// Waits until the connection is gone, and returns what came before and was not read.
    @discardableResult
    func waitUntilClosed() async throws -> String {
        let inbox = self.inbox
        return try await channel.eventLoop.flatSubmit { inbox.value.take(nil, .seconds(10)) }.get()
    }

    func close() async { try? await channel.close().get() }
}

/// Collects what comes; one reader at a time waits for a text in it.
private final class Inbox: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private var bytes: [UInt8] = []
    private var isClosed = false
    private var waiting: (mark: [UInt8]?, promise: EventLoopPromise<String>, timeout: Scheduled<Void>)?
    private var eventLoop: (any EventLoop)?

    func handlerAdded(context: ChannelHandlerContext) { eventLoop = context.eventLoop }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes += unwrapInboundIn(data).readableBytesView
        look()
    }

    func channelInactive(context: ChannelHandlerContext) {
        isClosed = true
        look()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {}

    func take(_ mark: String?, _ limit: TimeAmount) -> EventLoopFuture<String> {
        guard let eventLoop else { fatalError("not in a pipeline") }
        let promise = eventLoop.makePromise(of: String.self)
        let timeout = eventLoop.assumeIsolated().scheduleTask(in: limit) {
            self.waiting = nil
            let text = String(decoding: self.bytes.suffix(300), as: UTF8.self)
            promise.fail(TestClient.Failure(description: "no \(mark ?? "close") came; last: \(text)"))
        }
        waiting = (mark.map { Array($0.utf8) }, promise, timeout)
        look()
        return promise.futureResult
    }

    private func look() {
        guard let waiting else { return }
        var end: Int?
        if let mark = waiting.mark {
            end = bytes.firstRange(of: mark)?.upperBound
            if end == nil, isClosed {
                self.waiting = nil
                waiting.timeout.cancel()
                return waiting.promise.fail(TestClient.Failure(description: "the connection was closed"))
            }
        } else if isClosed {
            end = bytes.count
        }
        guard let end else { return }
        let text = String(decoding: bytes[..<end], as: UTF8.self)
        bytes.removeFirst(end)
        self.waiting = nil
        waiting.timeout.cancel()
        waiting.promise.succeed(text)
    }
}

/// The JSON inside a message stanza, undone from its wrapping by text operations.
func unwrap(_ stanza: String) throws -> [String: Any] {
    let start = try #require(stanza.range(of: "mobile:data\">"))
    let close = try #require(stanza.range(of: "gcm>", options: .backwards))
    let end = try #require(stanza.range(of: "</", options: .backwards, range: start.upperBound..<close.lowerBound))
    var text = String(stanza[start.upperBound..<end.lowerBound])
    if text.hasPrefix("<![CDATA[") {
        text = text.replacingOccurrences(of: "]]><![CDATA[", with: "")
        text = String(text.dropFirst(9).dropLast(3))
    } else {
        for (entity, character) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")] {
            text = text.replacingOccurrences(of: entity, with: character)
        }
    }
    return try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
}

/// The default configuration with a change.
func configured(_ change: (inout EmulatorConfiguration) -> Void) -> EmulatorConfiguration {
    var configuration = EmulatorConfiguration()
    change(&configuration)
    return configuration
}

/// Runs a body with an emulator and stops it in any case.
func withEmulator(
    _ configuration: EmulatorConfiguration = EmulatorConfiguration(),
    _ body: (Emulator) async throws -> Void
) async throws {
    let emulator = try await Emulator.start(configuration)
    do {
        try await body(emulator)
    } catch {
        await emulator.stop()
        throw error
    }
    await emulator.stop()
}
