import NIOCore
import NIOEmbedded
import Testing

@testable import CCSEmulator

/// Ends the connection with the first write that holds a message, as a socket does whose peer has gone.
private final class BreakingSocket: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard String(buffer: unwrapOutboundIn(data)).contains("google:mobile:data") else {
            return context.write(data, promise: promise)
        }
        promise?.fail(ChannelError.ioOnClosedChannel)
        context.close(promise: nil)
    }
}

@MainActor @Suite("Emulator: a write that ends its connection")
struct LostWriteTests {
    /// A connection that is bound, and what it was sent since.
    private func bound(
        _ core: EmulatorCore,
        on eventLoop: EmbeddedEventLoop,
        breaks: Bool = false
    ) throws -> (EmbeddedChannel, text: String) {
        let channel = EmbeddedChannel(loop: eventLoop)
        if breaks { try channel.pipeline.syncOperations.addHandler(BreakingSocket()) }
        try core.accept(channel)
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
        let header =
            "<stream:stream to='x' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
        let auth = "<auth mechanism='PLAIN' xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>ADQyQHgAcw==</auth>"
        let bind = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>"
        for text in [header, auth, header, bind] where channel.isActive {
            _ = try? channel.writeInbound(ByteBuffer(string: text))
            eventLoop.run()
        }
        var text = ""
        while let bytes = try channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: bytes) }
        return (channel, text)
    }

    @Test("a message with a fault is delivered to the next one, where the write before it ends the connection")
    func messageWithFault() throws {
        var configuration = EmulatorConfiguration()
        configuration.security = .none
        configuration.load = LoadProfile(count: 3)
        configuration.faults = try FaultScript(parsing: "after 2: whitespace")
        let eventLoop = EmbeddedEventLoop()
        let core = try EmulatorCore(configuration, eventLoop: eventLoop, tlsContext: nil)
        let (lost, nothing) = try bound(core, on: eventLoop, breaks: true)
        #expect(!lost.isActive && !nothing.contains("google:mobile:data"))
        let (channel, text) = try bound(core, on: eventLoop)
        #expect(channel.isActive)
        #expect(text.ranges(of: "google:mobile:data").count == 3)
        core.stop()
        _ = try channel.finish(acceptAlreadyClosed: true)
    }
}
