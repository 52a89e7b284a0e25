import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// The library's HTTP/1.1 channel with a ``RequestGuard`` in each connection.
struct ConsoleChannel: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    private let base: HTTP1Channel
    private let limits: ConsoleLimits
    private let connections: ClientConnections

    init(_ limits: ConsoleLimits, _ connections: ClientConnections, responder: @escaping HTTPChannelHandler.Responder) {
        (self.limits, self.connections) = (limits, connections)
        base = HTTP1Channel(
            responder: responder,
            configuration: .init(
                httpDecoderConfiguration: .init(
                    maxHeaderFieldSize: limits.head,
                    maxHeaderListSize: limits.head,
                    maxHeaderFieldCount: limits.headers
                )
            )
        )
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        base.setup(channel: channel, logger: logger)
            .flatMapThrowing { [limits, connections] value in
                // Fixed: by default the kernel buffers up to 4 MiB for a connection that is not read.
                try channel.syncOptions?.setOption(.socketOption(.so_sndbuf), value: .init(limits.kernelBuffer))
                let pipeline = channel.pipeline.syncOperations
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
                try pipeline.addHandler(RequestGuard(limits, connections.open(channel)), position: .after(decoder))
                return value
            }
    }

    func handle(value: Value, logger: Logger) async { await base.handle(value: value, logger: logger) }
}
