import Glibc
import NIOCore
import NIOPosix
import TLSWire
import Vocabulary

/// Finds and connects to a sender's server, one place after the other (RFC 6120 section 3.2.1); addresses by RFC 8305.
struct StreamConnector: Sendable {
    /// The most places named in a message.
    private static let shownFailures = 4

    let settings: SenderSettings
    let eventLoop: any EventLoop
    /// Whether the connection is still wanted; called on the event loop.
    let isWanted: @Sendable () -> Bool

    /// Connects, then adds TLS and the handlers, made on the event loop for the server that was reached.
    ///
    /// Not before: a host with several addresses is tried with concurrent channels. Nothing is missed meanwhile, since
    /// in TLS and XMPP the client speaks first.
    func connect(_ handlers: @escaping @Sendable (ReachedServer) -> [any ChannelHandler]) -> EventLoopFuture<Void> {
        targets().flatMap { targets in
            reach(targets[...], failures: [], until: .now() + settings.findingTimeout)
        }
        .flatMapThrowing { channel, target in
            let handlers = handlers(ReachedServer(target: target, address: channel.remoteAddress))
            do {
                let pipeline = channel.pipeline.syncOperations
                if case .direct(let context) = target.security, settings.transport == nil {
                    try pipeline.addHandler(TLSHandler(context: context))
                }
                try pipeline.addHandlers(handlers)
            } catch {
                channel.close(promise: nil)
                throw error
            }
        }
    }

    private func targets() -> EventLoopFuture<[ServerTarget]> {
        guard let discovery = settings.discovery else {
            let (host, port, security) = (settings.host, settings.port, settings.security)
            let target = ServerTarget(host: host, port: port, security: security, origin: .configured)
            return eventLoop.makeSucceededFuture([target])
        }
        return ServiceLookup.findings(of: discovery, on: eventLoop).flatMapThrowing { findings in
            var generator = RandomSource.system
            return try discovery.targets(findings, using: &generator)
        }
    }

    /// Tries places until one is reached; after the deadline, no further one.
    private func reach(
        _ targets: ArraySlice<ServerTarget>,
        failures: [String],
        until deadline: NIODeadline
    ) -> EventLoopFuture<(any Channel, ServerTarget)> {
        guard let target = targets.first, isWanted(), failures.isEmpty || .now() < deadline else {
            return eventLoop.makeFailedFuture(ServerNotFound.unreachable(failures))
        }
        return connect(target).map { ($0, target) }.flatMapError { error in
            guard settings.discovery != nil else { return eventLoop.makeFailedFuture(error) }
            let place = "\(target.host) port \(target.port): \(Self.reason(error))"
            let isShown = failures.count < Self.shownFailures
            return reach(targets.dropFirst(), failures: isShown ? failures + [place] : failures, until: deadline)
        }
    }

    private func connect(_ target: ServerTarget) -> EventLoopFuture<any Channel> {
        if let transport = settings.transport { return transport(target.host, target.port, eventLoop) }
        let addresses = HostAddresses(of: target.host, port: target.port, by: settings.resolver, on: eventLoop)
        return ClientBootstrap(group: eventLoop)
            .resolver(addresses)
            .connectTimeout(settings.connectTimeout)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.recvAllocator, value: ReadSizes())
            .connect(host: target.host, port: target.port)
    }

    /// Why a TCP connection could not be made: the cause in NIO's nested error, in a few words.
    static func reason(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            // No address was tried: the name is unknown, or has no address.
            if error.connectionErrors.isEmpty { return "the host name cannot be resolved" }
            return error.connectionErrors.map { reason($0.error) }.joined(separator: "; ")
        case let error as IOError: return String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout: return "no answer in time"
        default: return "\(error)"
        }
    }
}
