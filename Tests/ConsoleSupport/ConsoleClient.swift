package import NIOCore
package import NIOHTTP1
import NIOPosix

/// An answer whose body is read as it comes; the connection closes when nobody reads any more.
package struct OpenReply: Sendable {
    package let status: HTTPResponseStatus
    package let headers: HTTPHeaders
    /// Throws where the body breaks off.
    package let body: AsyncThrowingStream<ByteBuffer, any Error>

    package func collect() async throws -> [UInt8] {
        var bytes: [UInt8] = []
        for try await part in body { bytes += part.readableBytesView }
        return bytes
    }
}

/// A request over a connection of its own.
enum ConsoleClient {
    struct TimedOut: Error {}

    static func send(
        _ port: Int,
        _ head: HTTPRequestHead,
        _ body: [UInt8],
        within limit: TimeAmount
    ) async throws -> OpenReply {
        let group = MultiThreadedEventLoopGroup.singleton
        let promise = group.next().makePromise(of: OpenReply.self)
        let channel: any Channel
        do {
            channel = try await ClientBootstrap(group: group)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHTTPClientHandlers(leftOverBytesStrategy: .dropBytes)
                        try channel.pipeline.syncOperations.addHandler(ReplyHandler(promise))
                    }
                }
                .connect(host: "127.0.0.1", port: port).get()
        } catch {
            promise.fail(error)
            throw error
        }
        let timer = channel.eventLoop.scheduleTask(in: limit) { channel.pipeline.fireErrorCaught(TimedOut()) }
        channel.closeFuture.whenComplete { _ in timer.cancel() }
        channel.write(HTTPClientRequestPart.head(head), promise: nil)
        if !body.isEmpty {
            channel.write(HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(bytes: body))), promise: nil)
        }
        channel.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
        return try await withTaskCancellationHandler {
            try await promise.futureResult.get()
        } onCancel: {
            channel.close(promise: nil)
        }
    }
}

private final class ReplyHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    private let promise: EventLoopPromise<OpenReply>
    private var continuation: AsyncThrowingStream<ByteBuffer, any Error>.Continuation?

    init(_ promise: EventLoopPromise<OpenReply>) { self.promise = promise }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            let (body, continuation) = AsyncThrowingStream.makeStream(of: ByteBuffer.self, throwing: (any Error).self)
            let channel = context.channel
            continuation.onTermination = { _ in channel.close(promise: nil) }
            self.continuation = continuation
            promise.succeed(OpenReply(status: head.status, headers: head.headers, body: body))
        case .body(let part): continuation?.yield(part)
        case .end: continuation?.finish()
        }
    }

    func channelInactive(context: ChannelHandlerContext) { end(ChannelError.eof) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        end(error)
        context.close(promise: nil)
    }

    private func end(_ error: any Error) {
        promise.fail(error)
        continuation?.finish(throwing: error)
    }
}
