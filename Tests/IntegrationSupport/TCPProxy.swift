import NIOCore
import NIOPosix
import Synchronization

/// A relay between TCP on loopback and a server's unix socket, or another TCP port, which can be cut and stalled.
package final class TCPProxy: Sendable {
    /// The port it listens on.
    package let port: Int
    private let group: MultiThreadedEventLoopGroup
    private let listener: Mutex<any Channel>
    private let wire: Wire

    /// What the relays look at; its channels belong to one event loop.
    fileprivate final class Wire: Sendable {
        struct State {
            var target: Target
            var clients: Set<ObjectIdentifier> = []
            var deaf: Set<ObjectIdentifier> = []
            var isCut = false
            var isStalled = false
            var swallowsReply = false
            /// How many more bytes of clients pass before their connections break; nil for all.
            var allowance: Int?
            /// How many bytes a second it reads of a client; nil for no limit.
            var rate: Int?
            var channels: [ObjectIdentifier: any Channel] = [:]
        }
        let state: Mutex<State>

        init(_ target: Target) { state = Mutex(State(target: target)) }

        /// Whether the client of this channel is not heard any more.
        func isDeaf(to client: any Channel) -> Bool {
            state.withLock { $0.deaf.contains(ObjectIdentifier(client)) }
        }

        func takeSwallow() -> Bool {
            state.withLock { state in
                defer { state.swallowsReply = false }
                return state.swallowsReply
            }
        }

        /// How many of a client's bytes pass before its connection breaks; nil for all, and no break.
        func take(_ count: Int) -> Int? {
            state.withLock { state in
                guard let left = state.allowance else { return nil }
                guard count >= left else {
                    state.allowance = left - count
                    return nil
                }
                state.allowance = nil
                return left
            }
        }

        /// How long to read nothing of a client after so many bytes; nil without a limit.
        func pause(after count: Int) -> TimeAmount? {
            state.withLock { $0.rate }.map { .nanoseconds(Int64(count) * 1_000_000_000 / Int64($0)) }
        }

        /// Enters a channel; false where it must be closed at once.
        func add(_ channel: any Channel, isClient: Bool) -> Bool {
            let isCut = state.withLock { state in
                guard !state.isCut else { return true }
                state.channels[ObjectIdentifier(channel)] = channel
                if isClient { state.clients.insert(ObjectIdentifier(channel)) }
                return false
            }
            guard !isCut else { return false }
            channel.closeFuture.whenComplete { _ in
                self.state.withLock { state in
                    state.channels[ObjectIdentifier(channel)] = nil
                    state.clients.remove(ObjectIdentifier(channel))
                }
            }
            return true
        }

        /// Begins to read unless nothing may pass now.
        func open(_ channel: any Channel) -> EventLoopFuture<Void> {
            channel.setOption(.autoRead, value: state.withLock { !$0.isStalled })
        }
    }

    fileprivate enum Target: Sendable {
        case socket(String)
        case port(Int)

        func connect(_ bootstrap: ClientBootstrap) -> EventLoopFuture<any Channel> {
            switch self {
            case .socket(let path): bootstrap.connect(unixDomainSocketPath: path)
            case .port(let port): bootstrap.connect(host: "127.0.0.1", port: port)
            }
        }
    }

    /// How the relay does not hear its clients, while what the server sends goes on to them.
    package enum Silence: CaseIterable, Sendable {
        /// It takes their bytes and throws them away: a path that is dead in one direction.
        case swallows
        /// It does not read: their bytes stay in the kernels' buffers.
        case readsNothing
    }

    /// Starts one in front of the server that listens at `socketPath`.
    package static func start(to socketPath: String) async throws -> TCPProxy {
        try await start(.socket(socketPath))
    }

    /// Starts one in front of the server that listens on this port of loopback.
    ///
    /// With a rate it reads no more bytes a second of each client, and little is under way in the kernels.
    package static func start(toPort port: Int, rate: Int? = nil) async throws -> TCPProxy {
        try await start(.port(port), rate: rate)
    }

    private static func start(_ target: Target, rate: Int? = nil) async throws -> TCPProxy {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let wire = Wire(target)
        wire.state.withLock { $0.rate = rate }
        return TCPProxy(group: group, listener: try await listen(port: 0, wire, group), wire: wire)
    }

    private static func listen(
        port: Int,
        _ wire: Wire,
        _ group: MultiThreadedEventLoopGroup
    ) async throws -> any Channel {
        var bootstrap = ServerBootstrap(group: group)
        if wire.state.withLock({ $0.rate }) != nil {
            bootstrap = bootstrap.serverChannelOption(.socketOption(.so_rcvbuf), value: 8_192)
                .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 1_024))
                .childChannelOption(.maxMessagesPerRead, value: 1)
        }
        return
            try await bootstrap
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.autoRead, value: false)
            .childChannelInitializer { client in
                guard wire.add(client, isClient: true) else { return client.close() }
                let bootstrap = ClientBootstrap(group: client.eventLoop)
                    .channelOption(.autoRead, value: false)
                    .channelInitializer { server in
                        server.eventLoop.makeCompletedFuture {
                            guard wire.add(server, isClient: false) else { throw ChannelError.ioOnClosedChannel }
                            let relay = Relay(partner: client, wire: wire, isReply: true)
                            try server.pipeline.syncOperations.addHandler(relay)
                        }
                    }
                return wire.state.withLock { $0.target }.connect(bootstrap)
                    .flatMap { server in
                        client.eventLoop.makeCompletedFuture {
                            let relay = Relay(partner: server, wire: wire, isReply: false)
                            try client.pipeline.syncOperations.addHandler(relay)
                        }
                        .flatMap { wire.open(server) }
                    }
                    .flatMap { wire.open(client) }
            }
            .bind(host: "127.0.0.1", port: port).get()
    }

    private init(group: MultiThreadedEventLoopGroup, listener: any Channel, wire: Wire) {
        self.group = group
        port = listener.localAddress?.port ?? 0
        self.listener = Mutex(listener)
        self.wire = wire
    }

    /// Leads new connections to another server.
    package func lead(to socketPath: String) { wire.state.withLock { $0.target = .socket(socketPath) } }

    /// Breaks every connection off and refuses new ones.
    package func cut() {
        let channels = wire.state.withLock { state in
            state.isCut = true
            return Array(state.channels.values)
        }
        for channel in channels { channel.close(promise: nil) }
    }

    /// Refuses connections as a machine does on which nobody listens, until ``listen()``; ``cut()`` takes and closes them.
    package func refuse() async throws { try await listener.withLock { $0 }.close() }

    /// Listens again after ``refuse()``.
    package func listen() async throws {
        guard !listener.withLock({ $0 }).isActive else { return }
        let again = try await Self.listen(port: port, wire, group)
        listener.withLock { $0 = again }
    }

    /// Lets nothing through any more, without a word to either side: what is sent meanwhile comes later.
    ///
    /// New connections are taken, and as silent. Once it returns, nothing that is sent from then on gets through.
    package func stall() async {
        // It may have been closed meanwhile.
        for change in set(stalled: true) { try? await change.get() }
    }

    /// Lets connections, and what they hold back, through again.
    package func restore() {
        wire.state.withLock { $0.isCut = false }
        _ = set(stalled: false)
    }

    private func set(stalled: Bool) -> [EventLoopFuture<Void>] {
        let channels = wire.state.withLock { state in
            state.isStalled = stalled
            return Array(state.channels.values)
        }
        return channels.map { $0.setOption(.autoRead, value: !stalled) }
    }

    /// Hears nothing more of the clients that are connected now; new ones are heard.
    package func deafen(_ silence: Silence) async throws {
        let clients = wire.state.withLock { state in
            state.deaf = state.clients
            return state.channels.filter { state.clients.contains($0.key) }.map(\.value)
        }
        guard silence == .readsNothing else { return }
        for client in clients { try await client.setOption(.autoRead, value: false).get() }
    }

    /// Breaks a connection off once so many more bytes of clients have passed.
    package func cut(afterClientBytes count: Int) { wire.state.withLock { $0.allowance = count } }

    /// Throws the server's next bytes away and breaks that connection off.
    package func swallowNextReply() { wire.state.withLock { $0.swallowsReply = true } }

    /// Ends it with all its connections.
    package func stop() async {
        cut()
        try? await refuse()
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
        var bytes = unwrapInboundIn(data)
        if !isReply, let pause = wire.pause(after: bytes.readableBytes) {
            let channel = context.channel
            _ = channel.setOption(.autoRead, value: false)
            channel.eventLoop.scheduleTask(in: pause) { [wire] in
                if !wire.isDeaf(to: channel) { _ = channel.setOption(.autoRead, value: true) }
            }
        }
        if !isReply, let count = wire.take(bytes.readableBytes), let last = bytes.readSlice(length: count) {
            let channel = context.channel
            return partner.writeAndFlush(last).whenComplete { _ in channel.close(promise: nil) }
        }
        partner.writeAndFlush(bytes, promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { partner.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
