import Glibc
import NIOCore
import NIOPosix
import TLSWire
import Vocabulary
import XMLWire
import XMPP

/// Makes the channel of a stream.
enum StreamConnector {
    /// The handlers of a connection behind TLS.
    typealias Handlers = (parser: XMLStreamHandler, stream: any ChannelHandler)

    /// Connects to a sender's server, then puts TLS and these handlers into the pipeline.
    ///
    /// Not before: a host with several addresses is tried with a channel for each, side by side, and what the handlers keep
    /// belongs to one channel alone. Nothing is missed meanwhile, since with TLS as with XMPP the client speaks first.
    ///
    /// - Parameters:
    ///   - settings: The host, and how to speak with it.
    ///   - eventLoop: Where the channel is to run.
    ///   - handlers: Gives the handlers; called on the event loop, once.
    /// - Returns: Fails where no address could be connected to.
    static func connect(
        _ settings: SenderSettings,
        on eventLoop: any EventLoop,
        _ handlers: @escaping @Sendable () -> Handlers
    ) -> EventLoopFuture<Void> {
        // What the kernel has taken and the peer has not acknowledged for this long, or had no room for, ends the connection:
        // TCP itself would go on trying for a quarter of an hour.
        let limit = settings.keepaliveTimeout.nanoseconds / 1_000_000
        var bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(settings.connectTimeout)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(
                .tcpOption(NIOBSDSocket.Option(rawValue: CInt(TCP_USER_TIMEOUT))),
                value: Int(min(max(limit, 1), 600_000))
            )
        if let resolver = settings.resolver { bootstrap = bootstrap.resolver(resolver) }
        return bootstrap.connect(host: settings.host, port: settings.port).flatMapThrowing { channel in
            let handlers = handlers()
            do {
                let pipeline = channel.pipeline.syncOperations
                if case .direct(let context) = settings.security {
                    try pipeline.addHandler(TLSHandler(context: context))
                }
                try pipeline.addHandlers([handlers.parser, handlers.stream])
            } catch {
                channel.close(promise: nil)
                throw error
            }
        }
    }
}
