import CCSEmulator
import Foundation
import IntegrationSupport
import NIOCore
import NIOPosix
import Synchronization
import TLSWire
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// Peers that are not who they should be get nothing from us, and the log says why (G9).
    @Suite struct TLSRefusalTests {
        /// A server that has something wrong with it.
        enum Flaw: String, CaseIterable {
            case otherHost, expired, untrusted, selfSigned, oldVersion

            /// What an operator must find in the log.
            var words: String {
                switch self {
                case .otherHost: "hostname mismatch"
                case .expired: "expired on"
                case .untrusted: "not trusted here"
                case .selfSigned: "self-signed"
                case .oldVersion: "must offer TLS 1.2 or 1.3"
                }
            }

            func identity(_ authority: CertificateAuthority) throws -> TLSServerConfiguration {
                let good = CertificateRequest(dnsNames: ["localhost"], addresses: ["127.0.0.1"])
                switch self {
                case .otherHost:
                    return try .init(authority.issue(CertificateRequest(dnsNames: ["other.test"], addresses: ["::1"])))
                case .expired:
                    var request = good
                    request.validity = -7200 ... -3600
                    return try .init(authority.issue(request))
                case .untrusted: return try .init(CertificateAuthority(commonName: "Somebody else").issue(good))
                case .selfSigned: return try .init(CertificateAuthority.selfSigned(good))
                case .oldVersion:
                    var server = try TLSServerConfiguration(authority.issue(good))
                    (server.minimumVersion, server.maximumVersion) = (.v1_0, .v1_1)
                    server.securityLevel = 0
                    return server
                }
            }
        }

        @Test(
            "a certificate or version that is not right is refused before a byte of the stream",
            arguments: Flaw.allCases
        )
        func refusedIdentity(_ flaw: Flaw) async throws {
            let authority = try CertificateAuthority()
            try await Stage.run {
                $0.identity = .server(try flaw.identity(authority))
            } _: { stage in
                let options = WorkerOptions(connections: 1, authorityPEM: authority.certificatePEM)
                try await stage.withWorker(options) { worker in
                    try await waitUntil("the peer is refused twice") {
                        worker.metrics.reconnects[.tlsFailed].value >= 2
                    }
                    let line = try #require(worker.logs.lines.first { $0.contains("stream.tls_refused") })
                    #expect(line.contains(flaw.words), "\(line)")
                }
                let tally = await stage.emulator.stop()
                #expect(tally.bound == 0 && tally.refusals == 0 && tally.connections >= 2)
                #expect(!(try stage.transcript().contains(#""direction":"in""#)))
            }
        }

        @Test("the same server with nothing wrong is taken, over TLS from the first byte and over STARTTLS")
        func goodServer() async throws {
            for (security, mode) in [(EmulatorConfiguration.Security.direct, "direct"), (.startTLS, "starttls")] {
                try await Stage.run {
                    $0.security = security
                    $0.load = LoadProfile(count: 100)
                } _: { stage in
                    try await stage.withWorker(WorkerOptions(connections: 1, mode: mode)) { worker in
                        try await stage.waitUntilComplete()
                        #expect(worker.settled(.stored) == 100)
                    }
                    #expect(await stage.emulator.tally().isClean)
                }
            }
        }

        @Test(
            "a peer without TLS gets no credentials, whatever it offers or smuggles",
            arguments: PlainServer.Kind.allCases
        )
        func plaintext(_ kind: PlainServer.Kind) async throws {
            try await Stage.run { stage in
                let server = try await PlainServer.start(kind)
                let mode = kind == .noTLS ? "direct" : "starttls"
                let options = WorkerOptions(connections: 1, mode: mode, port: server.port)
                try await stage.withWorker(options) { worker in
                    try await waitUntil("the peer is refused twice") {
                        worker.metrics.reconnects[.tlsFailed].value >= 2
                    }
                    #expect(worker.metrics.connections(sender: 0, state: .bound).value == 0)
                    let line = try #require(worker.logs.lines.first { $0.contains("stream.tls_refused") })
                    #expect(line.contains(kind.words), "\(line)")
                }
                let heard = String(decoding: server.heard, as: UTF8.self)
                #expect(!heard.isEmpty && !heard.contains("auth"), "\(heard)")
                if kind == .noTLS { #expect(!heard.contains("stream")) }
                // Nothing after the smuggled bytes: not even a TLS hello (content type 22).
                if kind == .smuggles { #expect(heard.hasSuffix(">") && !server.heard.contains(22)) }
                await server.stop()
            }
        }
    }
}

/// A server that speaks no TLS and remembers every byte it gets.
final class PlainServer: Sendable {
    enum Kind: String, CaseIterable {
        /// Answers TLS with plain XMPP.
        case noTLS
        /// Offers SASL and no STARTTLS.
        case noOffer
        /// Offers STARTTLS, and sends features of its own before the handshake.
        case smuggles

        /// What an operator must find in the log.
        var words: String {
            switch self {
            case .noTLS: "starttls"
            case .noOffer: "STARTTLS"
            case .smuggles: "unencrypted bytes followed"
            }
        }
    }

    private static let header =
        "<?xml version='1.0'?><stream:stream from='gcm.googleapis.com' id='1' version='1.0' "
        + "xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
    private static let sasl =
        "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>"
        + "<mechanism>PLAIN</mechanism></mechanisms></stream:features>"
    private static let tls =
        "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/>"
        + "</starttls></stream:features>"
    private static let proceed = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"

    let port: Int
    private let group: MultiThreadedEventLoopGroup
    private let listener: any Channel
    private let record: Record

    private final class Record: Sendable {
        let bytes = Mutex<[UInt8]>([])
    }

    private init(_ group: MultiThreadedEventLoopGroup, _ listener: any Channel, _ record: Record) {
        (self.group, self.listener, self.record) = (group, listener, record)
        port = listener.localAddress?.port ?? 0
    }

    static func start(_ kind: Kind) async throws -> PlainServer {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let record = Record()
        let listener = try await ServerBootstrap(group: group)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Answerer(kind: kind, record: record))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return PlainServer(group, listener, record)
    }

    /// Every byte that came, over all connections.
    var heard: [UInt8] { record.bytes.withLock { $0 } }

    func stop() async {
        try? await listener.close()
        try? await group.shutdownGracefully()
    }

    private final class Answerer: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer
        private let kind: Kind
        private let record: Record
        private var text = ""
        private var step = 0

        init(kind: Kind, record: Record) {
            self.kind = kind
            self.record = record
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let buffer = unwrapInboundIn(data)
            record.bytes.withLock { $0 += Array(buffer.readableBytesView) }
            text += String(buffer: buffer)
            if step == 0, kind == .noTLS || text.contains("<stream:stream") {
                step = 1
                say(PlainServer.header + (kind == .smuggles ? PlainServer.tls : PlainServer.sasl), context)
            }
            if step == 1, kind == .smuggles, text.contains("<starttls") {
                step = 2
                say(PlainServer.proceed + PlainServer.header + PlainServer.sasl, context)
            }
        }

        private func say(_ text: String, _ context: ChannelHandlerContext) {
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
