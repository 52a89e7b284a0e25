import NIOCore
import Testing

@testable import TLSWire

@Suite(.timeLimit(.minutes(5))) struct TransferTests {
    @Test("TLS added to an active channel, as STARTTLS does") func startTLS() async throws {
        let server = try TLSContext.server(serving())
        let client = try TLSContext.client(trusting())
        let listener = try await Listener.start { channel in
            try channel.pipeline.syncOperations.addHandler(Switch(server, answer: "proceed"))
            try channel.pipeline.syncOperations.addHandler(Echo())
        }
        let connected = try await Connected.open(listener.port) { channel in
            try channel.pipeline.syncOperations.addHandler(Switch(client, answer: nil))
        }
        try await connected.send("starttls")
        try await connected.established()
        try await connected.send("secret")
        try await connected.wait("the echo") { $0.bytes == Array("secret".utf8) }
        try await connected.channel.close().get()
        try await listener.stop()
    }

    @Test("With autoRead off nothing is delivered unasked, and everything after") func autoReadOff() async throws {
        let size = 2500 * 4096
        let listener = try await Listener.start { [context = try TLSContext.server(serving())] channel in
            try channel.pipeline.syncOperations.addHandler(TLSHandler(context: context))
            try channel.pipeline.syncOperations.addHandler(Flood(size))
        }
        let connected = try await Connected.tls(listener.port, trusting(), autoRead: false)
        // The handshake needs no reading of the application.
        try await connected.established()
        // The server's socket buffers are full, so the data is there to be read.
        try await listener.recorder.wait(on: listener.channel.eventLoop, "the flood") { $0.reads > 0 }
        #expect(connected.recorder.seen.bytes.isEmpty)
        connected.channel.read()
        try await connected.wait("something") { !$0.bytes.isEmpty }
        let afterOne = connected.recorder.seen.bytes.count
        #expect(afterOne < size)
        try await connected.channel.setOption(.autoRead, value: true).get()
        try await connected.wait("everything") { $0.bytes.count == size }
        let bytes = connected.recorder.seen.bytes
        let blocks = (0..<(size / 4096)).flatMap { [UInt8](repeating: UInt8(truncatingIfNeeded: $0), count: 4096) }
        #expect(bytes == blocks)
        try await connected.channel.close().get()
        try await listener.stop()
    }

    @Test("10 MB in one write turn the channel unwritable and arrive whole") func bigWrite() async throws {
        let listener = try await Listener.tls(serving())
        let connected = try await Connected.tls(listener.port, trusting())
        try await connected.established()
        let size = 10_000_000
        let write = connected.write(ByteBuffer(repeating: 0x41, count: size))
        try await write.get()
        try await listener.recorder.wait(on: listener.channel.eventLoop, "10 MB") { $0.bytes.count == size }
        try await connected.channel.close().get()
        try await listener.recorder.wait(on: listener.channel.eventLoop, "the end") { $0.isInactive }
        #expect(listener.recorder.seen.closedCleanly == 1)
        #expect(listener.recorder.seen.errors.isEmpty)
        try await listener.stop()
    }

    @Test("What was flushed before close arrives before the end") func flushedThenClosed() async throws {
        let listener = try await Listener.tls(serving())
        let connected = try await Connected.tls(listener.port, trusting())
        try await connected.established()
        _ = connected.write(ByteBuffer(repeating: 0x41, count: 3_000_000))
        try await connected.channel.close().get()
        try await listener.recorder.wait(on: listener.channel.eventLoop, "the end") { $0.isInactive }
        #expect(listener.recorder.seen.bytes.count == 3_000_000)
        #expect(listener.recorder.seen.closedCleanly == 1)
        try await listener.stop()
    }
}

/// Begins in plaintext; the first word switches to TLS.
final class Switch: ChannelInboundHandler, RemovableChannelHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    let context: TLSContext
    let answer: String?

    init(_ context: TLSContext, answer: String?) {
        self.context = context
        self.answer = answer
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if let answer = self.answer {
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
        }
        do {
            let pipeline = context.pipeline.syncOperations
            try pipeline.addHandler(TLSHandler(context: self.context), position: .first)
            pipeline.removeHandler(self, promise: nil)
        } catch {
            context.fireErrorCaught(error)
        }
    }
}

/// Sends as much as told, a byte value per 4 KiB, and notes as a read when the socket stops taking it.
final class Flood: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    let size: Int
    init(_ size: Int) { self.size = size }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        context.fireUserInboundEventTriggered(event)
        guard case .established = event as? TLSEvent else { return }
        var buffer = context.channel.allocator.buffer(capacity: self.size)
        // By blocks: this runs on an event loop that the other tests share.
        for block in 0..<(self.size / 4096) {
            buffer.writeRepeatingByte(UInt8(truncatingIfNeeded: block), count: 4096)
        }
        context.writeAndFlush(self.wrapOutboundOut(buffer), promise: nil)
        if !context.channel.isWritable {
            context.fireChannelRead(NIOAny(ByteBuffer()))
        }
    }
}
