import NIOCore
import NIOPosix
import Synchronization

/// A relay between TCP on loopback and PostgreSQL's unix socket, or another TCP port, which can be cut.
final class TCPProxy: Sendable {
    let port: Int
    private let group: MultiThreadedEventLoopGroup
    private let listener: any Channel
    private let wire: Wire

    /// What the relays look at.
    final class Wire: Sendable {
        struct State {
            var isCut = false
            var swallowsReply = false
            var deaf: Deafness?
            var channels: [ObjectIdentifier: any Channel] = [:]
        }
        let state = Mutex(State())

        /// Whether the client of this channel is not heard any more.
        func isDeaf(to client: any Channel) -> Bool {
            state.withLock { $0.deaf?.clients.contains(ObjectIdentifier(client)) ?? false }
        }

        func takeSwallow() -> Bool {
            state.withLock { state in
                defer { state.swallowsReply = false }
                return state.swallowsReply
            }
        }
    }

    /// How the relay does not hear its clients, while what the server sends goes on to them.
    enum Silence: CaseIterable {
        /// It takes their bytes and throws them away: a path that is dead in one direction.
        case swallows
        /// It does not read: their bytes stay in the kernels' buffers.
        case readsNothing
    }

    struct Deafness {
        var clients: Set<ObjectIdentifier>
    }

    static func start(to socketPath: String) async throws -> TCPProxy {
        try await start { $0.connect(unixDomainSocketPath: socketPath) }
    }

    static func start(toPort port: Int) async throws -> TCPProxy {
        try await start { $0.connect(host: "127.0.0.1", port: port) }
    }

    private static func start(
        _ connect: @escaping @Sendable (ClientBootstrap) -> EventLoopFuture<any Channel>
    ) async throws -> TCPProxy {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let wire = Wire()
        let listener = try await ServerBootstrap(group: group)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.autoRead, value: false)
            .childChannelInitializer { client in
                let isCut = wire.state.withLock { state in
                    if !state.isCut { state.channels[ObjectIdentifier(client)] = client }
                    return state.isCut
                }
                guard !isCut else { return client.close() }
                client.closeFuture.whenComplete { _ in
                    wire.state.withLock { $0.channels[ObjectIdentifier(client)] = nil }
                }
                let bootstrap = ClientBootstrap(group: client.eventLoop)
                    .channelInitializer { server in
                        server.eventLoop.makeCompletedFuture {
                            let relay = Relay(partner: client, wire: wire, isReply: true)
                            try server.pipeline.syncOperations.addHandler(relay)
                        }
                    }
                return connect(bootstrap)
                    .flatMap { server in
                        client.eventLoop.makeCompletedFuture {
                            let relay = Relay(partner: server, wire: wire, isReply: false)
                            try client.pipeline.syncOperations.addHandler(relay)
                        }
                    }
                    .flatMap { client.setOption(.autoRead, value: true) }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return TCPProxy(group: group, listener: listener, wire: wire)
    }

    private init(group: MultiThreadedEventLoopGroup, listener: any Channel, wire: Wire) {
        self.group = group
        self.listener = listener
        self.wire = wire
        port = listener.localAddress?.port ?? 0
    }

    /// Breaks every connection off and refuses new ones.
    func cut() {
        let channels = wire.state.withLock { state in
            state.isCut = true
            return Array(state.channels.values)
        }
        for channel in channels { channel.close(promise: nil) }
    }

    /// Lets connections through again.
    func restore() { wire.state.withLock { $0.isCut = false } }

    /// Hears nothing more of the clients that are connected now; new ones are heard.
    func deafen(_ silence: Silence) async throws {
        let clients = wire.state.withLock { state in
            state.deaf = Deafness(clients: Set(state.channels.keys))
            return Array(state.channels.values)
        }
        guard silence == .readsNothing else { return }
        for client in clients { try await client.setOption(.autoRead, value: false).get() }
    }

    /// Throws the server's next bytes away and breaks that connection off.
    func swallowNextReply() { wire.state.withLock { $0.swallowsReply = true } }

    func stop() async {
        cut()
        try? await listener.close()
        try? await group.shutdownGracefully()
    }
}

private final class Relay: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let partner: any Channel
    private let wire: TCPProxy.Wire
    private let isReply: Bool

    init(partner: any Channel, wire: TCPProxy.Wire, isReply: Bool) {
        self.partner = partner
        self.wire = wire
        self.isReply = isReply
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !isReply, wire.isDeaf(to: context.channel) { return }
        guard !isReply || !wire.takeSwallow() else { return context.close(promise: nil) }
        partner.writeAndFlush(unwrapInboundIn(data), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { partner.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
