import NIOCore
import NIOPosix
import Testing

@testable import TLSWire

let loops = MultiThreadedEventLoopGroup.singleton

/// One authority for the whole suite; making keys costs time.
let authority = Result { () throws(TLSError) in try CertificateAuthority() }

/// A listener on 127.0.0.1 and what its connections have seen.
struct Listener {
    let channel: any Channel
    let recorder: Recorder
    let port: Int

    /// Listens; `prepare` sets up each connection's pipeline in front of the recorder.
    static func start(
        autoRead: Bool = true,
        _ prepare: @escaping @Sendable (any Channel) throws -> Void
    ) async throws -> Listener {
        let recorder = Recorder()
        let channel = try await ServerBootstrap(group: loops)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.autoRead, value: autoRead)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try prepare(channel)
                    try channel.pipeline.syncOperations.addHandler(recorder)
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        return Listener(channel: channel, recorder: recorder, port: try #require(channel.localAddress?.port))
    }

    /// A TLS listener.
    static func tls(_ configuration: TLSServerConfiguration, echo: Bool = false) async throws -> Listener {
        let context = try TLSContext.server(configuration)
        return try await self.start { channel in
            try channel.pipeline.syncOperations.addHandler(TLSHandler(context: context))
            if echo {
                try channel.pipeline.syncOperations.addHandler(Echo())
            }
        }
    }

    func stop() async throws {
        try await self.channel.close().get()
    }
}

/// Sends back what comes, and passes it on to the recorder.
final class Echo: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        context.writeAndFlush(data, promise: nil)
        context.fireChannelRead(data)
    }
}

/// A connection to a port on 127.0.0.1 and what it has seen.
struct Connected {
    let channel: any Channel
    let recorder: Recorder

    static func open(
        _ port: Int,
        autoRead: Bool = true,
        _ prepare: @escaping @Sendable (any Channel) throws -> Void
    ) async throws -> Connected {
        let recorder = Recorder()
        let channel = try await ClientBootstrap(group: loops)
            .channelOption(.autoRead, value: autoRead)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try prepare(channel)
                    try channel.pipeline.syncOperations.addHandler(recorder)
                }
            }
            .connect(host: "127.0.0.1", port: port)
            .get()
        return Connected(channel: channel, recorder: recorder)
    }

    /// A TLS connection.
    static func tls(
        _ port: Int,
        _ configuration: TLSClientConfiguration,
        autoRead: Bool = true
    ) async throws -> Connected {
        let context = try TLSContext.client(configuration)
        return try await self.open(port, autoRead: autoRead) {
            try $0.pipeline.syncOperations.addHandler(TLSHandler(context: context))
        }
    }

    func wait(_ what: String, until condition: @escaping @Sendable (Seen) -> Bool) async throws {
        try await self.recorder.wait(on: self.channel.eventLoop, what, until: condition)
    }

    func established() async throws {
        try await self.wait("established or an error") { !$0.established.isEmpty || !$0.errors.isEmpty }
        try #require(self.recorder.seen.errors.isEmpty, "\(self.recorder.seen.errors)")
    }

    /// Writes and flushes without waiting.
    func write(_ buffer: ByteBuffer) -> EventLoopFuture<Void> {
        self.channel.writeAndFlush(buffer)
    }

    func send(_ text: String) async throws {
        try await self.write(ByteBuffer(string: text)).get()
    }
}

/// A client that trusts the suite's authority and expects `localhost`.
func trusting(_ name: String = "localhost") throws -> TLSClientConfiguration {
    var configuration = TLSClientConfiguration(serverName: name)
    configuration.trust = .pem(try authority.get().certificatePEM)
    return configuration
}

/// A server with a certificate of the suite's authority.
func serving(
    _ request: CertificateRequest = CertificateRequest(dnsNames: ["localhost"])
) throws -> TLSServerConfiguration {
    TLSServerConfiguration(try authority.get().issue(request))
}
