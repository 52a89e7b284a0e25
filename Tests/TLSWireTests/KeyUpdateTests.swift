import COpenSSL
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import TLSWire

/// Counts what the handlers behind it ask the network for.
private final class ReadCounter: ChannelOutboundHandler, Sendable {
    typealias OutboundIn = ByteBuffer
    private let counter = Mutex(0)

    var count: Int { self.counter.withLock { $0 } }

    func read(context: ChannelHandlerContext) {
        self.counter.withLock { $0 += 1 }
        context.read()
    }
}

@Suite struct KeyUpdateTests {
    @Test("A peer that asks for one key update after another and takes no answer is not read from")
    func flood() throws {
        let pair = try Pair(maximumVersion: .v1_3)
        try pair.connect()
        let reads = ReadCounter()
        try pair.client.pipeline.syncOperations.addHandler(reads, position: .first)
        // The application waits for data all the time.
        pair.client.pipeline.read()
        #expect(reads.count == 1)

        try self.requestKeyUpdate(pair)
        #expect(reads.count == 2, "a record without data is not what the application asked for")

        pair.client.isWritable = false
        try self.requestKeyUpdate(pair)
        #expect(reads.count == 2)
        pair.client.isWritable = true
        pair.client.pipeline.fireChannelWritabilityChanged()
        #expect(reads.count == 3)
        #expect(pair.clientSeen.seen.errors.isEmpty)
        pair.abandon()
    }

    /// Sends one request of the server's to the client.
    private func requestKeyUpdate(_ pair: Pair) throws {
        let connection = try pair.server.pipeline.syncOperations.handler(type: TLSHandler.self).connection
        try #require(SSL_key_update(connection.ssl, SSL_KEY_UPDATE_REQUESTED) == 1)
        try #require(SSL_do_handshake(connection.ssl) == 1)
        try pair.client.writeInbound(try #require(connection.takeOutput()))
    }
}
