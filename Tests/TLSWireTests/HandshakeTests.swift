import NIOCore
import Testing

@testable import TLSWire

@Suite(.timeLimit(.minutes(5))) struct HandshakeTests {
    @Test("Both versions are spoken, with data both ways and a clean end")
    func versions() async throws {
        for (version, name) in [(TLSVersion.v1_2, "TLSv1.2"), (.v1_3, "TLSv1.3")] {
            var server = try serving()
            server.minimumVersion = version
            server.maximumVersion = version
            let serverContext = try TLSContext.server(server)
            let listener = try await Listener.start { channel in
                try channel.pipeline.syncOperations.addHandler(TLSHandler(context: serverContext))
                try channel.pipeline.syncOperations.addHandler(Echo())
            }
            let connected = try await Connected.tls(listener.port, trusting())
            try await connected.established()
            guard case .established(let spoken, let cipher) = connected.recorder.seen.established.first else {
                Issue.record("no event")
                return
            }
            #expect(spoken == name)
            #expect(cipher.hasPrefix("TLS_"))
            try await connected.send("hello")
            try await connected.wait("the echo") { $0.bytes == Array("hello".utf8) }
            try await connected.channel.close().get()
            try await connected.wait("the end") { $0.isInactive }
            #expect(connected.recorder.seen.errors.isEmpty)
            try await listener.stop()
        }
    }

    struct Refusal: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var server: @Sendable () throws -> TLSServerConfiguration
        var client: @Sendable () throws -> TLSClientConfiguration
        var code: TLSError.Code
        var words: String
    }

    static let refusals: [Refusal] = [
        Refusal(
            testDescription: "wrong host",
            server: { try serving(CertificateRequest(dnsNames: ["other.example"])) },
            client: { try trusting() },
            code: .hostnameMismatch,
            words: "DNS:other.example"
        ),
        Refusal(
            testDescription: "the right name as the subject alone",
            server: { try serving(CertificateRequest(commonName: "localhost")) },
            client: { try trusting() },
            code: .hostnameMismatch,
            words: "only the subject"
        ),
        Refusal(
            testDescription: "partial wildcard",
            server: { try serving(CertificateRequest(dnsNames: ["loc*.example"])) },
            client: { try trusting("localhost.example") },
            code: .hostnameMismatch,
            words: "tls.server_name"
        ),
        Refusal(
            testDescription: "an address needs an IP name",
            server: { try serving(CertificateRequest(dnsNames: ["localhost", "127.0.0.1"])) },
            client: { try trusting("127.0.0.1") },
            code: .hostnameMismatch,
            words: "127.0.0.1"
        ),
        Refusal(
            testDescription: "expired",
            server: {
                try serving(CertificateRequest(dnsNames: ["localhost"], validity: -7200 ... -3600))
            },
            client: { try trusting() },
            code: .expired,
            words: "expired on"
        ),
        Refusal(
            testDescription: "not yet valid",
            server: { try serving(CertificateRequest(dnsNames: ["localhost"], validity: 3600...86_400)) },
            client: { try trusting() },
            code: .notYetValid,
            words: "clock"
        ),
        Refusal(
            testDescription: "another authority",
            server: { try serving() },
            client: {
                var client = TLSClientConfiguration(serverName: "localhost")
                client.trust = .pem(try CertificateAuthority(commonName: "Another").certificatePEM)
                return client
            },
            code: .untrusted,
            words: "tls.ca_file"
        ),
        Refusal(
            testDescription: "another authority of the same name",
            server: { try serving() },
            client: {
                var client = TLSClientConfiguration(serverName: "localhost")
                client.trust = .pem(try CertificateAuthority().certificatePEM)
                return client
            },
            code: .untrusted,
            words: "made anew"
        ),
        Refusal(
            testDescription: "the system does not know the authority",
            server: { try serving() },
            client: { TLSClientConfiguration(serverName: "localhost") },
            code: .untrusted,
            words: "tls.ca_file"
        ),
        Refusal(
            testDescription: "self-signed",
            server: {
                TLSServerConfiguration(
                    try CertificateAuthority.selfSigned(CertificateRequest(dnsNames: ["localhost"]))
                )
            },
            client: { try trusting() },
            code: .selfSigned,
            words: "self-signed"
        ),
        Refusal(
            testDescription: "TLS 1.1 only",
            server: {
                var server = try serving()
                server.minimumVersion = .v1_1
                server.maximumVersion = .v1_1
                server.securityLevel = 0
                return server
            },
            client: { try trusting() },
            code: .protocolVersion,
            words: "TLS 1.2"
        ),
    ]

    @Test("A peer that is not the right one gets no byte of the application", arguments: refusals)
    func refused(_ refusal: Refusal) async throws {
        let listener = try await Listener.tls(refusal.server())
        let connected = try await Connected.tls(listener.port, refusal.client())
        // Written before the handshake can have ended: it must wait, and then fail.
        let write = connected.write(ByteBuffer(string: "the credentials"))
        try await connected.wait("the end") { $0.isInactive }
        let seen = connected.recorder.seen
        #expect(seen.codes == [refusal.code], "\(seen.errors)")
        #expect(seen.errors.count == 1)
        #expect(seen.messages.contains(refusal.words), "\(seen.messages)")
        #expect(seen.established.isEmpty)
        await #expect(throws: (any Error).self) { try await write.get() }
        try await listener.recorder.wait(on: listener.channel.eventLoop, "the server's end") { $0.isInactive }
        #expect(listener.recorder.seen.bytes.isEmpty)
        #expect(listener.recorder.seen.established.isEmpty)
        // Our alert, or for TLS 1.1 the server's own failure, and never a silent end.
        #expect(listener.recorder.seen.codes.count == 1)
        try await listener.stop()
    }

    @Test("certificates for addresses and wildcards are accepted where they match")
    func addressesAndWildcards() async throws {
        let listener = try await Listener.tls(
            serving(CertificateRequest(dnsNames: ["*.svc.example"], addresses: ["127.0.0.1", "::1"]))
        )
        for name in ["127.0.0.1", "[::1]", "one.svc.example", "one.svc.example."] {
            let connected = try await Connected.tls(listener.port, trusting(name))
            try await connected.established()
            try await connected.channel.close().get()
        }
        try await listener.stop()
    }

    @Test(
        "A plaintext peer is recognised by its first bytes",
        arguments: [
            ("<stream:stream>", "tls.mode: starttls"), ("HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
            ("SSH-2.0-x\r\n", "SSH"), ("\u{0}?", "tls.mode: starttls"),
        ]
    )
    func plaintextPeer(_ text: String, _ hint: String) async throws {
        let listener = try await Listener.start { channel in
            try channel.pipeline.syncOperations.addHandler(Greeter(text))
        }
        let connected = try await Connected.tls(listener.port, trusting())
        try await connected.wait("the end") { $0.isInactive }
        #expect(connected.recorder.seen.codes == [.plaintextPeer])
        #expect(connected.recorder.seen.messages.contains(hint))
        try await listener.stop()
    }

    @Test("a peer's first bytes tell TLS, XML and other protocols apart")
    func probe() {
        #expect(TLSProbe.looksLikeTLSRecord([0x15]))
        #expect(TLSProbe.looksLikeTLSRecord([0x16]))
        #expect(!TLSProbe.looksLikeTLSRecord([UInt8(ascii: "<")]))
        #expect(TLSProbe.looksLikeTLSRecord([0x16, 3, 1]))
        #expect(!TLSProbe.looksLikeTLSRecord([0x16, 0x20]))
        #expect(!TLSProbe.looksLikeTLSRecord([]))
    }

    @Test("A server that never answers is given up") func timeout() async throws {
        let listener = try await Listener.start { _ in }
        var client = try trusting()
        client.handshakeTimeout = .milliseconds(50)
        let connected = try await Connected.tls(listener.port, client)
        try await connected.wait("the end") { $0.isInactive }
        #expect(connected.recorder.seen.codes == [.handshakeTimeout])
        try await listener.stop()
    }

    @Test("A peer that leaves in the middle of the handshake") func closedDuringHandshake() async throws {
        let listener = try await Listener.start { channel in
            try channel.pipeline.syncOperations.addHandler(HangUp())
        }
        let connected = try await Connected.tls(listener.port, trusting())
        try await connected.wait("the end") { $0.isInactive }
        #expect(connected.recorder.seen.errors.count == 1)
        let codes = connected.recorder.seen.codes
        #expect(codes == [.handshakeFailed] || codes == [.io])
        try await listener.stop()
    }

    @Test("Writes before the end of the handshake are bounded") func pendingWriteOverflow() async throws {
        let listener = try await Listener.start { _ in }
        let connected = try await Connected.tls(listener.port, trusting())
        let first = connected.write(ByteBuffer(repeating: 0x20, count: 65_536))
        let second = connected.write(ByteBuffer(repeating: 0x20, count: 1))
        for write in [first, second] {
            await #expect {
                try await write.get()
            } throws: {
                ($0 as? TLSError)?.code == .pendingWriteOverflow
            }
        }
        try await connected.wait("the end") { $0.isInactive }
        #expect(connected.recorder.seen.codes == [.pendingWriteOverflow])
        try await listener.stop()
    }
}

/// Says one thing when the connection opens.
final class Greeter: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    let text: String
    init(_ text: String) { self.text = text }
    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(string: self.text)), promise: nil)
        context.fireChannelActive()
    }
}

/// Closes as soon as anything comes.
final class HangUp: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        context.close(promise: nil)
    }
}
