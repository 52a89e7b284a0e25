import Glibc
package import NIOCore
import NIOPosix
import TLSWire
package import XMLWire
package import XMPP

/// Takes a connection from TCP to the bound stream: hands the channel's events to a ``XMPP/Negotiation`` and does with the
/// pipeline what it says.
///
/// What a worker's connections and those of a replay have in common. Confined to the connection's event loop.
package final class StreamOpening {
    /// What is left to the handler.
    package enum Step {
        /// Nothing.
        case none
        /// Send these bytes.
        case send([UInt8])
        /// Compute this key, away from the event loop, then call ``StreamOpening/derived(_:)``.
        case derive(KeyDerivation)
        /// The stream is bound; the opening is over.
        case bound(BoundStream)
        /// The opening has failed, and is over.
        case failed(NegotiationError)
        /// TLS could not be put into the pipeline.
        case broken(any Error)
    }

    private var negotiation: Negotiation
    private let security: SenderSettings.Security
    private let stream: XMLStreamHandler
    private var isConnected = false

    /// An opening that waits for its transport.
    ///
    /// - Parameters:
    ///   - settings: How to reach the server.
    ///   - dialect: What kind of server it is: with ``XMPP/Dialect/xmpp`` the greeting says that we are present.
    ///   - secret: The password.
    ///   - idPrefix: The beginning of the ids of our IQs.
    ///   - stream: The handler of this channel that cuts the stream into stanzas.
    package init(
        _ settings: SenderSettings,
        dialect: Dialect,
        secret: [UInt8],
        idPrefix: String,
        stream: XMLStreamHandler
    ) {
        security = settings.security
        self.stream = stream
        let isDirect = if case .direct = settings.security { true } else { false }
        negotiation = Negotiation(
            configuration: NegotiationConfiguration(
                domain: settings.domain,
                localpart: settings.senderID,
                credentials: SASLCredentials(username: settings.username, secret: Secret(secret)),
                tlsMode: isDirect ? .direct : .starttls,
                dialect: dialect,
                idPrefix: idPrefix,
                nonce: (0..<24).map { _ in UInt8.random(in: .min ... .max) }
            )
        )
    }

    /// TCP is connected: with STARTTLS the stream begins now, with direct TLS after the handshake.
    ///
    /// May be told more than once: handlers that come to a channel while it becomes active can't know whether they are going
    /// to hear of it.
    package func connected() -> Step {
        guard !isConnected else { return .none }
        isConnected = true
        if case .startTLS = security { return transportReady(encrypted: false) }
        return .none
    }

    /// TLS is established.
    package func encrypted() -> Step { transportReady(encrypted: true) }

    private func transportReady(encrypted: Bool) -> Step {
        switch negotiation.transportReady(encrypted: encrypted) {
        case .send(let bytes): .send(bytes)
        case .none: .none
        case .fail(let error): .failed(error)
        }
    }

    /// An event of the stream.
    package func read(_ event: XMLStreamEvent, _ context: ChannelHandlerContext) -> Step {
        switch event {
        case .opened(let header):
            if case .fail(let error) = negotiation.opened(header) { return .failed(error) }
            return .none
        // Nothing that the server needs to say is like that; the deadline ends the wait for what it should have said.
        case .skipped:
            return .none
        case .closed:
            return negotiation.closed().map { .failed($0) } ?? .none
        case .stanza(let stanza):
            return step(negotiation.stanza(stanza, trailingBytes: stream.unreadBytes), context)
        }
    }

    /// The key is there that ``Step/derive(_:)`` asked for.
    package func derived(_ key: Secret, _ context: ChannelHandlerContext) -> Step {
        step(negotiation.derived(key), context)
    }

    private func step(_ action: Negotiation.StanzaAction, _ context: ChannelHandlerContext) -> Step {
        switch action {
        case .none: return .none
        case .send(let bytes): return .send(bytes)
        case .derive(let derivation): return .derive(derivation)
        case .bound(let bound): return .bound(bound)
        case .fail(let error): return .failed(error)
        case .restart(let bytes):
            stream.reset()
            return .send(bytes)
        case .startTLS:
            stream.reset()
            return startTLS(context)
        }
    }

    private func startTLS(_ context: ChannelHandlerContext) -> Step {
        guard case .startTLS(let tls) = security else { return .none }
        do {
            try context.pipeline.syncOperations.addHandler(TLSHandler(context: tls), position: .first)
            return .none
        } catch {
            return .broken(error)
        }
    }

    /// The opening has taken too long; nil where it is over.
    package func timedOut() -> NegotiationError? { negotiation.timedOut() }

    /// The transport is gone; nil where the opening is over.
    package func transportClosed() -> NegotiationError? { negotiation.transportClosed() }
}

extension StreamOpening {
    /// The handlers of a connection behind TLS.
    package typealias Handlers = (stream: XMLStreamHandler, session: any ChannelHandler)

    /// Connects to a sender's server, then puts TLS and these handlers into the pipeline.
    ///
    /// Not before: a host with several addresses is tried with a channel for each, side by side, and what the handlers keep
    /// belongs to one channel alone. Nothing is missed meanwhile, since with TLS as with XMPP the client speaks first.
    ///
    /// - Parameters:
    ///   - settings: The host, and how to speak with it.
    ///   - group: Where the channel is to run.
    ///   - handlers: Makes the handlers, or gives nil where nobody wants the connection any more; called on the channel's
    ///     event loop, once.
    /// - Returns: Fails where no address could be connected to.
    package static func connect(
        _ settings: SenderSettings,
        on group: any EventLoopGroup,
        _ handlers: @escaping @Sendable () -> Handlers?
    ) -> EventLoopFuture<Void> {
        var bootstrap = ClientBootstrap(group: group)
            .connectTimeout(settings.connectTimeout)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
        // What the kernel has taken and the peer has not acknowledged for so long, or had no room for, ends the connection:
        // else TCP would go on trying for a quarter of an hour.
        let limit = settings.keepaliveTimeout.nanoseconds / 1_000_000
        bootstrap = bootstrap.channelOption(
            .tcpOption(NIOBSDSocket.Option(rawValue: CInt(TCP_USER_TIMEOUT))),
            value: Int(min(max(limit, 1), 600_000))
        )
        if let resolver = settings.resolver { bootstrap = bootstrap.resolver(resolver) }
        return bootstrap.connect(host: settings.host, port: settings.port).flatMapThrowing { channel in
            guard let handlers = handlers() else { return channel.close(promise: nil) }
            do {
                let pipeline = channel.pipeline.syncOperations
                if case .direct(let context) = settings.security {
                    try pipeline.addHandler(TLSHandler(context: context))
                }
                try pipeline.addHandlers([handlers.stream, handlers.session])
            } catch {
                channel.close(promise: nil)
                throw error
            }
        }
    }
}
