import HTTPTypes
import HummingbirdCore
package import NIOCore
import NIOHTTP1

/// The limits of one connection that concern its bytes and their pace, right behind the HTTP decoder.
///
/// The library closes a connection that is idle, or whose request's head does not come whole, after ``ConsoleLimits/idle``.
/// Here: a body must be small and come soon, an answer must be taken, bytes that are no HTTP get an answer that says so, HTTP/1.0
/// is closed after one answer, and a shutdown does not wait for an answer without an end.
final class RequestGuard: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private let limits: ConsoleLimits
    /// Requests whose answer is not finished.
    private var unanswered = 0
    private var bodyBytes = 0
    /// Set once the connection only waits to be closed: what still comes is dropped.
    private var isRefused = false
    private var bodyTimer: Scheduled<Void>?
    private var writeTimer: Scheduled<Void>?
    private var closeTimer: Scheduled<Void>?

    init(_ limits: ConsoleLimits) { self.limits = limits }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isRefused else { return }
        switch unwrapInboundIn(data) {
        case .head(var head):
            bodyBytes = 0
            if let length = head.headers.first(name: "Content-Length").flatMap({ Int($0) }), length > limits.body {
                return refuse(context, .payloadTooLarge, Self.tooLarge(limits))
            }
            // Such a client knows no end of an answer but that of the connection.
            if head.version.major < 1 || (head.version.major == 1 && head.version.minor == 0) {
                head.headers.replaceOrAdd(name: "Connection", value: "close")
            }
            unanswered += 1
            bodyTimer?.cancel()
            bodyTimer = after(limits.bodyTime, context) { $0.close(promise: nil) }
            context.fireChannelRead(wrapInboundOut(.head(head)))
        case .body(let buffer):
            bodyBytes += buffer.readableBytes
            guard bodyBytes <= limits.body else {
                isRefused = true
                context.fireErrorCaught(RequestTooLarge())
                return
            }
            context.fireChannelRead(data)
        case .end:
            bodyTimer?.cancel()
            bodyTimer = nil
            context.fireChannelRead(data)
        }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data) { unanswered -= 1 }
        context.write(data, promise: promise)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable {
            writeTimer?.cancel()
            writeTimer = nil
        } else if writeTimer == nil {
            writeTimer = after(limits.writeTime, context) { $0.close(promise: nil) }
        }
        context.fireChannelWritabilityChanged()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard !isRefused else { return }
        // An answer that is under way must not be torn: the library ends the connection behind it.
        guard unanswered == 0, let error = error as? HTTPParserError else { return context.fireErrorCaught(error) }
        switch error {
        case .headerOverflow:
            refuse(
                context,
                .requestHeaderFieldsTooLarge,
                Problem(
                    .init(code: 431, reasonPhrase: "Request Header Fields Too Large"),
                    "head-too-large",
                    "The request's head is too large",
                    "send at most \(limits.head >> 10) KiB of headers, \(limits.headers) at most"
                )
            )
        default: refuse(context, .badRequest, .badRequest("these bytes are not a request of HTTP/1.1 (RFC 9112)"))
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent, closeTimer == nil {
            closeTimer = after(limits.drainTime, context) { $0.close(promise: nil) }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        cancelTimers()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { cancelTimers() }

    /// Answers in place of the application, and closes.
    ///
    /// First only our side, while what the client still sends is dropped for a moment: a connection that is closed with unread
    /// bytes is reset, and the answer may be lost with it.
    private func refuse(_ context: ChannelHandlerContext, _ status: HTTPResponseStatus, _ problem: Problem) {
        isRefused = true
        guard unanswered == 0 else { return context.close(promise: nil) }
        let body = ByteBuffer(bytes: problem.json)
        var head = HTTPResponseHead(version: .http1_1, status: status)
        head.headers.add(name: "Content-Type", value: "application/problem+json")
        head.headers.add(name: "Content-Length", value: "\(body.readableBytes)")
        head.headers.add(name: "Connection", value: "close")
        head.headers.add(name: "Cache-Control", value: "no-store")
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.close(mode: .output, promise: nil)
        closeTimer?.cancel()
        closeTimer = after(.seconds(1), context) { $0.close(promise: nil) }
    }

    private func after(
        _ time: TimeAmount,
        _ context: ChannelHandlerContext,
        _ act: @escaping @Sendable (any Channel) -> Void
    ) -> Scheduled<Void> {
        let channel = context.channel
        return context.eventLoop.scheduleTask(in: time) { act(channel) }
    }

    private func cancelTimers() {
        for timer in [bodyTimer, writeTimer, closeTimer] { timer?.cancel() }
    }

    private static func tooLarge(_ limits: ConsoleLimits) -> Problem {
        Problem(.contentTooLarge, "too-large", "The request is too large", "send at most \(limits.body >> 10) KiB")
    }
}

/// A body grew beyond the limit while it came.
struct RequestTooLarge: Error {}

/// What one connection may use.
package struct ConsoleLimits: Sendable {
    /// The most bytes of a request's head.
    package var head = 16 << 10
    /// The most fields of a request's head.
    package var headers = 64
    /// The most bytes of a request's body.
    package var body = 256 << 10
    /// How long a connection may do nothing, and a request's head may take.
    package var idle = TimeAmount.seconds(20)
    /// How long a request's body may take.
    package var bodyTime = TimeAmount.seconds(20)
    /// How long a client may take nothing of an answer.
    package var writeTime = TimeAmount.seconds(30)
    /// How long an answer may go on after a shutdown began.
    package var drainTime = TimeAmount.seconds(2)
    /// How many connections there are at once; others wait in the kernel's queue.
    package var connections = 512

    package init() {}
}
