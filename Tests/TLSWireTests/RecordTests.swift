import NIOCore
import NIOEmbedded
import Testing

@testable import TLSWire

/// Records, tearing, promises and re-entrancy, without sockets.
@Suite struct RecordTests {
    @Test("Ciphertext torn at every length gives the same data", arguments: [1, 2, 3, 5, 7, 64, 1021])
    func torn(_ piece: Int) throws {
        for version in [TLSVersion.v1_2, .v1_3] {
            let pair = try Pair(maximumVersion: version)
            pair.piece = piece
            try pair.connect()
            let text = String(repeating: "0123456789abcdef", count: 1500)
            _ = pair.write(text)
            _ = pair.write("the end")
            try pair.exchange()
            #expect(pair.serverSeen.seen.bytes == Array((text + "the end").utf8))
            #expect(pair.serverSeen.seen.errors.isEmpty)
        }
    }

    @Test("Many small writes become one record, and all promises are kept") func coalescing() throws {
        let pair = try Pair()
        try pair.connect()
        pair.forgetWire()
        let writes = (0..<100).map { _ in pair.write("0123456789", flush: false) }
        try pair.exchange()
        #expect(pair.clientRecords.isEmpty)
        pair.client.flush()
        try pair.exchange()
        #expect(pair.clientRecords.count == 1)
        #expect(pair.serverSeen.seen.bytes.count == 1000)
        #expect(pair.serverSeen.seen.reads == 1)
        for write in writes {
            try pair.settled(write)
        }
    }

    @Test("Records are filled across the borders of writes") func fullRecords() throws {
        let pair = try Pair()
        try pair.connect()
        pair.forgetWire()
        var sent: [UInt8] = []
        for (index, length) in [10, 0, 16_384, 40_000, 5, 16_383, 1, 0].enumerated() {
            let bytes = [UInt8](repeating: UInt8(index), count: length)
            sent += bytes
            pair.client.write(ByteBuffer(bytes: bytes), promise: nil)
        }
        pair.client.flush()
        try pair.exchange()
        #expect(pair.serverSeen.seen.bytes == sent)
        // 72,783 bytes need five records; a record that ends with a write may add to that.
        #expect(pair.clientRecords.count <= 7)
    }

    @Test("Unflushed writes show in the channel after 64 KiB") func unflushedWritesAreBounded() throws {
        let pair = try Pair()
        try pair.connect()
        pair.forgetWire()
        for _ in 0..<9 {
            pair.client.write(ByteBuffer(repeating: 0x20, count: 8192), promise: nil)
        }
        pair.client.pipeline.fireChannelReadComplete()
        // What reached the channel is unflushed there; a flush of nothing more brings it out.
        pair.client.flush()
        try pair.exchange()
        #expect(pair.serverSeen.seen.bytes.count == 9 * 8192)
    }

    @Test("An empty write is kept as a promise and sends nothing") func emptyWrite() throws {
        let pair = try Pair()
        try pair.connect()
        pair.forgetWire()
        let write = pair.write("")
        try pair.settled(write)
        try pair.exchange()
        #expect(pair.clientRecords.isEmpty)
    }

    @Test("An empty write ends behind what was written before it") func emptyWriteLast() throws {
        let pair = try Pair()
        try pair.connect()
        var ended: [String] = []
        let long = pair.write(String(repeating: "a", count: 100_000), flush: false)
        let empty = pair.write("", flush: false)
        long.assumeIsolated().whenSuccess { ended.append("long") }
        empty.assumeIsolated().whenSuccess { ended.append("empty") }
        pair.client.flush()
        #expect(ended == ["long", "empty"])
    }

    @Test("A write before the handshake waits for it") func earlyWrite() throws {
        let pair = try Pair()
        let early = pair.write("early")
        try pair.connect()
        try pair.settled(early)
        #expect(pair.serverSeen.seen.bytes == Array("early".utf8))
    }

    @Test("A clean end is told from a cut") func cleanEnd() throws {
        let pair = try Pair()
        try pair.connect()
        let closing = pair.client.close()
        try pair.exchange()
        try pair.settled(closing)
        #expect(pair.serverSeen.seen.closedCleanly == 1)
        #expect(pair.serverSeen.seen.isInactive)
        #expect(pair.serverSeen.seen.errors.isEmpty)
        #expect(pair.clientSeen.seen.closedCleanly == 1)
        #expect(pair.clientSeen.seen.errors.isEmpty)
    }

    @Test("An end without close_notify is truncation, reported once and after the data") func truncated() throws {
        let pair = try Pair()
        try pair.connect()
        _ = pair.write("data")
        try pair.exchange()
        pair.server.pipeline.fireChannelInactive()
        pair.server.pipeline.fireChannelInactive()
        #expect(pair.serverSeen.seen.bytes == Array("data".utf8))
        #expect(pair.serverSeen.seen.codes == [.truncated])
        #expect(pair.serverSeen.seen.closedCleanly == 0)
        pair.abandon()
    }

    @Test(
        "Where channels allow half-closure, an input that ends is truncated or a failed handshake, and closes all the same"
    )
    func inputClosed() throws {
        let early = try Pair()
        early.server.connect(to: try SocketAddress(ipAddress: "192.0.2.1", port: 1), promise: nil)
        early.server.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        #expect(early.serverSeen.seen.codes == [.handshakeFailed] && !early.server.isActive)
        early.abandon()
        let pair = try Pair()
        try pair.connect()
        pair.server.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        #expect(pair.serverSeen.seen.codes == [.truncated] && pair.serverSeen.seen.closedCleanly == 0)
        #expect(!pair.server.isActive)
        pair.abandon()
    }

    @Test("Closing the output closes, by close_notify") func outputClosed() throws {
        let pair = try Pair()
        try pair.connect()
        let closing = pair.client.close(mode: .output)
        try pair.exchange()
        try pair.settled(closing)
        #expect(pair.serverSeen.seen.closedCleanly == 1 && pair.serverSeen.seen.isInactive)
    }

    @Test("The peer's close_notify is waited for no longer than allowed") func closeTimeout() throws {
        let pair = try Pair()
        try pair.connect()
        let closing = pair.client.close()
        let second = pair.client.close()
        #expect(pair.client.isActive)
        pair.client.embeddedEventLoop.advanceTime(by: .seconds(2))
        #expect(!pair.client.isActive)
        try pair.settled(closing)
        try pair.settled(second)
        #expect(pair.clientSeen.seen.errors.isEmpty)
        #expect(pair.clientSeen.seen.closedCleanly == 0)
        pair.abandon()
    }

    @Test("A changed byte breaks the connection with one error and an alert") func tampered() throws {
        let pair = try Pair()
        try pair.connect()
        _ = pair.write("data")
        var record = try #require(try pair.client.readOutbound(as: ByteBuffer.self))
        let last = record.writerIndex - 1
        record.setInteger(try #require(record.getInteger(at: last, as: UInt8.self)) ^ 1, at: last)
        try pair.server.writeInbound(record)
        #expect(pair.serverSeen.seen.codes == [.protocolViolation])
        #expect(pair.serverSeen.seen.bytes.isEmpty)
        #expect(!pair.server.isActive)
        try pair.exchange()
        #expect(pair.clientSeen.seen.codes == [.alertReceived])
        #expect(pair.clientSeen.seen.messages.contains("bad record mac"))
    }

    @Test("The application may close from within its read") func closeWithinRead() throws {
        let pair = try Pair(server: [CloseOnRead()])
        try pair.connect()
        _ = pair.write("one")
        _ = pair.write("two")
        try pair.exchange()
        #expect(pair.serverSeen.seen.errors.isEmpty)
        #expect(pair.clientSeen.seen.errors.isEmpty)
        #expect(pair.clientSeen.seen.closedCleanly == 1)
        #expect(pair.serverSeen.seen.bytes == Array("one".utf8))
    }

    @Test("Plain bytes towards a server are recognised") func plaintextClient() throws {
        let pair = try Pair()
        pair.server.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
        try pair.server.writeInbound(ByteBuffer(string: "<stream:stream>"))
        #expect(pair.serverSeen.seen.codes == [.plaintextPeer])
        pair.abandon()
    }

    @Test("Transport errors are one error") func transportError() throws {
        let pair = try Pair()
        try pair.connect()
        pair.server.pipeline.fireErrorCaught(IOError(errnoCode: 104, reason: "read"))
        pair.server.pipeline.fireErrorCaught(IOError(errnoCode: 104, reason: "read"))
        #expect(pair.serverSeen.seen.codes == [.io])
        pair.abandon()
    }

    @Test(
        "What can't be used is refused with the reason",
        arguments: [
            ("/nonexistent/ca.pem", "No such file"), ("/dev/null", "no certificate"),
        ]
    )
    func unusableAuthority(_ path: String, _ words: String) {
        #expect {
            try TLSContext.client(TLSClientConfiguration(serverName: "localhost", caFile: path))
        } throws: {
            ($0 as? TLSError)?.code == .misconfigured && ($0 as? TLSError)?.message.contains(words) == true
        }
    }

    @Test("certificates and keys that can't be used are refused with the reason")
    func unusableIdentities() throws {
        let one = try authority.get().issue(CertificateRequest(dnsNames: ["localhost"]))
        let other = try authority.get().issue(CertificateRequest(dnsNames: ["localhost"]))
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
        for (chain, key) in [
            (one.chainPEM, other.keyPEM), (one.keyPEM, one.keyPEM), (one.chainPEM, one.chainPEM),
            (Array(broken.utf8), one.keyPEM), ([], []),
        ] {
            #expect {
                try TLSContext.server(
                    TLSServerConfiguration(TLSIdentity(certificateChain: .pem(chain), privateKey: .pem(key)))
                )
            } throws: {
                ($0 as? TLSError)?.code == .misconfigured
            }
        }
        for name in ["", "two words", "b\u{FC}cher.example", "nul\u{0}.example", "."] {
            #expect {
                try TLSContext.client(TLSClientConfiguration(serverName: name))
            } throws: {
                ($0 as? TLSError)?.code == .misconfigured
            }
        }
        #expect(throws: TLSError.self) {
            try authority.get().issue(CertificateRequest(dnsNames: ["a,DNS:b"]))
        }
    }
}

/// Closes with the first data, and passes it on.
final class CloseOnRead: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        context.close(promise: nil)
        context.fireChannelRead(data)
    }
}
