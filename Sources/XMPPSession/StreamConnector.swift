import Glibc
import NIOCore
import NIOPosix
import TLSWire
import Vocabulary
import XMLWire
import XMPP

enum StreamConnector {
    typealias Handlers = (parser: XMLStreamHandler, stream: any ChannelHandler)

    /// The stream to connect; its functions are called on the event loop.
    struct Stream: Sendable {
        var isWanted: @Sendable () -> Bool
        /// Returns the handlers, once, for this server.
        var handlers: @Sendable (ReachedServer) -> Handlers
    }

    /// Finds and connects to a sender's server, then adds TLS and the handlers to the pipeline: not before, since a
    /// host with several addresses is tried with concurrent channels, and in TLS and XMPP the client speaks first.
    ///
    /// Places are tried one after the other (RFC 6120 section 3.2.1), and each place's addresses by RFC 8305, as NIO
    /// does.
    static func connect(
        _ settings: SenderSettings,
        on eventLoop: any EventLoop,
        _ stream: Stream
    ) -> EventLoopFuture<Void> {
        let reached = targets(settings, on: eventLoop).flatMap { targets in
            Attempt(
                settings: settings,
                eventLoop: eventLoop,
                stream: stream,
                deadline: .now() + settings.findingTimeout
            )
            .reach(targets[...], failures: [])
        }
        return reached.flatMapThrowing { channel, target in
            let handlers = stream.handlers(ReachedServer(target: target, address: channel.remoteAddress))
            do {
                let pipeline = channel.pipeline.syncOperations
                if case .direct(let context) = target.security {
                    try pipeline.addHandler(TLSHandler(context: context))
                }
                try pipeline.addHandlers([handlers.parser, handlers.stream])
            } catch {
                channel.close(promise: nil)
                throw error
            }
        }
    }

    private static func targets(
        _ settings: SenderSettings,
        on eventLoop: any EventLoop
    ) -> EventLoopFuture<[ServerTarget]> {
        guard let discovery = settings.discovery else {
            let target = ServerTarget(
                host: settings.host,
                port: settings.port,
                security: settings.security,
                origin: .configured
            )
            return eventLoop.makeSucceededFuture([target])
        }
        return ServiceLookup.findings(of: discovery, on: eventLoop).flatMapThrowing { findings in
            var generator = SystemRandomNumberGenerator()
            return try discovery.targets(findings, using: &generator)
        }
    }

    /// One pass over a server's places.
    private struct Attempt: Sendable {
        static let shownFailures = 4

        let settings: SenderSettings
        let eventLoop: any EventLoop
        let stream: Stream
        /// After it no further place is tried.
        let deadline: NIODeadline

        func reach(
            _ targets: ArraySlice<ServerTarget>,
            failures: [String]
        ) -> EventLoopFuture<(any Channel, ServerTarget)> {
            guard let target = targets.first, stream.isWanted(), failures.isEmpty || .now() < deadline else {
                return eventLoop.makeFailedFuture(ServerNotFound.unreachable(failures))
            }
            return connect(target).map { ($0, target) }.flatMapError { error in
                guard settings.discovery != nil else { return eventLoop.makeFailedFuture(error) }
                let place = "\(target.host) port \(target.port): \(ConnectFailure.reason(error))"
                let isShown = failures.count < Self.shownFailures
                return reach(targets.dropFirst(), failures: isShown ? failures + [place] : failures)
            }
        }

        private func connect(_ target: ServerTarget) -> EventLoopFuture<any Channel> {
            // Ends a connection whose peer has acknowledged nothing, or had no room, for this long: TCP itself would
            // try for a quarter of an hour.
            let limit = settings.stream.keepaliveTimeout.nanoseconds / 1_000_000
            var bootstrap = ClientBootstrap(group: eventLoop)
                .connectTimeout(settings.connectTimeout)
                .channelOption(.socketOption(.so_keepalive), value: 1)
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .channelOption(.recvAllocator, value: ReadSizes())
                .channelOption(
                    .tcpOption(NIOBSDSocket.Option(rawValue: CInt(TCP_USER_TIMEOUT))),
                    value: Int(min(max(limit, 1), 600_000))
                )
            if let resolver = settings.resolver { bootstrap = bootstrap.resolver(resolver) }
            return bootstrap.connect(host: target.host, port: target.port)
        }
    }
}
