import Foundation
import Ingest
import IntegrationSupport
import NIOCore
import NIOEmbedded
import TLSWire
import Telemetry
import Testing

@testable import XMPPSession

/// A session handler on an event loop that it shares with others, and that other threads may call; the test is the server.
final class SharedBench: @unchecked Sendable {
    static let scram =
        "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-256</mechanism>"
        + "</mechanisms></stream:features>"

    private let channel: NIOAsyncTestingChannel
    private let queue = IngestQueue()
    // Made and used on the event loop.
    private let handler: StreamHandler<MessageReceiver>

    init(_ settings: SenderSettings, on loop: NIOAsyncTestingEventLoop) throws {
        channel = NIOAsyncTestingChannel(loop: loop)
        let settings = SharedSettings(settings)
        let receiver = MessageReceiver(
            settings: settings,
            environment: Connection.Environment(
                ingest: queue,
                clock: ArrivalClock(),
                metrics: Metrics(senders: ["42"], categories: [], handlers: [], version: "test")
            ),
            logger: .quiet,
            sink: IdleSink(),
            turn: loop.makePromise(),
            end: loop.makePromise()
        )
        handler = StreamHandler(settings: settings, delegate: receiver)
    }

    func connect() async throws {
        try await channel.testingEventLoop.executeInContext { [self] in
            try channel.pipeline.syncOperations.addHandler(handler.stream)
            try channel.pipeline.syncOperations.addHandler(handler)
            #expect(handler.begin(on: channel.testingEventLoop))
        }
        try await channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1)).get()
        channel.pipeline.fireUserInboundEventTriggered(TLSEvent.established(version: "1.3", cipher: ""))
        #expect(try await written().contains("<stream:stream"))
    }

    func exchange(_ texts: String...) async throws -> String {
        try await channel.writeInbound(ByteBuffer(string: texts.joined()))
        return try await written()
    }

    func written() async throws -> String {
        var text = ""
        await channel.testingEventLoop.run()
        while let buffer = try await channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: buffer) }
        return text
    }

    func signIn() async throws {
        _ = try await exchange(Server.header, Server.mechanisms)
        _ = try await exchange(Server.success)
        _ = try await exchange(Server.header, Server.bindFeature)
        _ = try await exchange(Server.bindResult)
    }

    func deliverAndSettle(_ id: String) async throws -> String {
        try await channel.writeInbound(ByteBuffer(string: Server.message(id)))
        let messages = queue.take()?.messages ?? []
        try await channel.testingEventLoop.executeInContext { [self] in handler.settled(messages) }
        return try await written()
    }

    func finish() async { try? await channel.close().get() }

    /// What stands in Base64 inside an element.
    static func payload(_ xml: String, _ element: String) -> String? {
        guard let start = xml.firstRange(of: "<\(element)")?.upperBound,
            let open = xml[start...].firstIndex(of: ">"),
            let end = xml[open...].firstRange(of: "</\(element)>")?.lowerBound
        else { return nil }
        let data = Data(base64Encoded: String(xml[xml.index(after: open)..<end]))
        return data.map { String(decoding: $0, as: UTF8.self) }
    }
}
