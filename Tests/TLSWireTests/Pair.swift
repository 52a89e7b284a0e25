import NIOCore
import NIOEmbedded
import Testing

@testable import TLSWire

/// A client and a server joined by hand, so that a test decides how ciphertext is torn and when it moves.
final class Pair {
    let client: EmbeddedChannel
    let server: EmbeddedChannel
    let clientSeen = Recorder()
    let serverSeen = Recorder()
    /// The length of the pieces ciphertext is delivered in.
    var piece = Int.max
    /// What the client has sent, as it went over the wire.
    private(set) var fromClient: [UInt8] = []

    init(
        maximumVersion: TLSVersion = .v1_3,
        client: [any ChannelHandler & Sendable] = [],
        server: [any ChannelHandler & Sendable] = []
    ) throws {
        var configuration = try serving()
        configuration.maximumVersion = maximumVersion
        self.client = EmbeddedChannel()
        self.server = EmbeddedChannel()
        try self.client.pipeline.syncOperations.addHandler(TLSHandler(context: .client(trusting())))
        try self.client.pipeline.syncOperations.addHandlers(client + [self.clientSeen])
        try self.server.pipeline.syncOperations.addHandler(TLSHandler(context: .server(configuration)))
        try self.server.pipeline.syncOperations.addHandlers(server + [self.serverSeen])
    }

    /// Connects both and finishes the handshake.
    func connect() throws {
        let address = try SocketAddress(ipAddress: "127.0.0.1", port: 1)
        self.server.connect(to: address, promise: nil)
        self.client.connect(to: address, promise: nil)
        try self.exchange()
        #expect(self.clientSeen.seen.established.count == 1)
        #expect(self.serverSeen.seen.established.count == 1)
    }

    /// Moves ciphertext until neither side has any.
    func exchange() throws {
        var moved = true
        while moved {
            moved = try self.move(from: self.client, to: self.server)
            moved = try self.move(from: self.server, to: self.client) || moved
        }
    }

    private func move(from source: EmbeddedChannel, to target: EmbeddedChannel) throws -> Bool {
        var moved = false
        while var bytes = try source.readOutbound(as: ByteBuffer.self) {
            moved = true
            if source === self.client {
                self.fromClient += bytes.readableBytesView
            }
            while let part = bytes.readSlice(length: min(self.piece, bytes.readableBytes)), part.readableBytes > 0 {
                guard target.isActive else { break }
                try target.writeInbound(part)
            }
        }
        return moved
    }

    func write(_ text: String, flush: Bool = true) -> EventLoopFuture<Void> {
        let buffer = ByteBuffer(string: text)
        return flush ? self.client.writeAndFlush(buffer) : self.client.write(buffer)
    }

    /// Requires that a future of the client is fulfilled by now; waiting for it would block the thread for ever.
    func settled(_ future: EventLoopFuture<Void>) throws {
        var outcome: Result<Void, any Error>?
        future.assumeIsolated().whenComplete { outcome = $0 }
        self.client.embeddedEventLoop.run()
        try #require(outcome).get()
    }

    /// Ends both sides; `finish()` would block on a close that waits for the other side.
    func abandon() {
        for channel in [self.client, self.server] {
            channel.close(promise: nil)
            channel.embeddedEventLoop.advanceTime(by: .seconds(3))
        }
    }

    /// Forgets what went over the wire so far.
    func forgetWire() {
        self.fromClient = []
    }

    /// The lengths of the records the client has sent.
    var clientRecords: [Int] {
        var lengths: [Int] = []
        var rest = self.fromClient[...]
        while rest.count >= 5 {
            let start = rest.startIndex
            let length = Int(rest[start + 3]) << 8 | Int(rest[start + 4])
            lengths.append(length)
            rest = rest.dropFirst(5 + length)
        }
        return lengths
    }
}
