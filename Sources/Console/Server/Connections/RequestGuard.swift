import HTTPTypes
package import NIOCore
import NIOHTTP1

/// Enforces one connection's limits on bytes and their pace, right behind the HTTP decoder.
///
/// A head and a body must be small and arrive soon, an answer must be taken, bytes that are not HTTP get an answer that
/// says so, HTTP/1.0 and `Connection: close` of either side end with the answer, an idle connection is closed, a
/// stranger's after a few seconds, and a shutdown does not wait for an endless answer. It also feeds the connection's
/// counters.
///
/// An answer ends when the client has taken it: the library, for which it ends when it is written, closes nothing.
final class RequestGuard: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private let limits: ConsoleLimits
    private let client: ClientConnection
    /// Requests not completely answered.
    private var unanswered = 0 {
        didSet { client.count(requests: unanswered) }
    }
    /// Whether the request read last is the connection's last.
    private var isLastRequest = false
    /// Whether it is of HTTP/1.0.
    private var isOld = false
    /// Whether the answer being written is the connection's last.
    private var isLastAnswer = false
    private var bodyBytes = 0
    /// Whether the connection only waits to be closed: further input is dropped.
    private var isRefused = false
    /// Whether the last answer is written, and may still have to be taken.
    private var isEnding = false
    private var bodyTimer: Scheduled<Void>?
    private var writeTimer: Scheduled<Void>?
    private var closeTimer: Scheduled<Void>?
    private var idleTimer: Scheduled<Void>?

    init(_ limits: ConsoleLimits, _ client: ClientConnection) { (self.limits, self.client) = (limits, client) }

    func handlerAdded(context: ChannelHandlerContext) { awaitRequest(context) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isRefused else { return }
        switch unwrapInboundIn(data) {
        case .head(var head):
            bodyBytes = 0
            if let length = head.headers.first(name: "Content-Length").flatMap({ Int($0) }), length > limits.body {
                return refuse(context, Problem(.tooLarge, "send at most \(limits.body >> 10) KiB"))
            }
            // In HTTP/1.0 only the connection's end ends an answer.
            isOld = head.version.major < 1 || (head.version.major == 1 && head.version.minor == 0)
            if isOld || Self.closes(head.headers) {
                head.headers.replaceOrAdd(name: "Connection", value: "close")
                isLastRequest = true
            }
            idleTimer?.cancel()
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
            if isLastRequest { isRefused = true }
            context.fireChannelRead(data)
        }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(var head):
            if isOld, unanswered == 1 { head.headers.replaceOrAdd(name: "Connection", value: "close") }
            if Self.closes(head.headers) {
                isLastAnswer = true
                // Without a length it ends with the connection, and is not sent in chunks.
                if !head.headers.contains(name: "Content-Length") { head.version = .http1_0 }
            }
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body(let body):
            let (promise, count) = (promise ?? context.eventLoop.makePromise(), body.readableBytes)
            promise.futureResult.whenComplete { [client] _ in client.took(count) }
            context.write(data, promise: promise)
        case .end:
            unanswered -= 1
            let isLast = isLastAnswer || (isLastRequest && unanswered == 0)
            if isLast { (isRefused, isEnding) = (true, true) }
            finish(context, data, promise)
            if isLast { context.flush() }
        }
    }

    /// Writes the end of an answer; only once it is taken, the connection idles, or is closed if it was the last one.
    private func finish(_ context: ChannelHandlerContext, _ end: NIOAny, _ promise: EventLoopPromise<Void>?) {
        let promise = promise ?? context.eventLoop.makePromise()
        promise.futureResult.assumeIsolated().whenSuccess { [self] in
            if isEnding { close(context) } else if unanswered == 0 { awaitRequest(context) }
        }
        context.write(end, promise: promise)
        if writeTimer == nil { awaitTaking(context) }
    }

    /// Whether `Connection` (RFC 9110 section 7.6.1) has the option `close`.
    private static func closes(_ headers: HTTPHeaders) -> Bool {
        headers[canonicalForm: "Connection"].contains { $0.lowercased() == "close" }
    }

    /// Limits how long a connection may be without a request, or a request's head may take.
    private func awaitRequest(_ context: ChannelHandlerContext) {
        idleTimer?.cancel()
        let time = client.isStranger ? min(limits.strangerIdle, limits.idle) : limits.idle
        idleTimer = after(time, context) { $0.close(promise: nil) }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if !context.channel.isWritable {
            if writeTimer == nil { awaitTaking(context) }
        } else if unanswered > 0 {
            writeTimer?.cancel()
            writeTimer = nil
        }
        context.fireChannelWritabilityChanged()
    }

    /// Closes the connection of a client that has taken nothing for ``ConsoleLimits/writeTime``; who takes slowly goes on.
    private func awaitTaking(_ context: ChannelHandlerContext) {
        let before = Self.untaken(context)
        writeTimer = context.eventLoop.assumeIsolated().scheduleTask(in: limits.writeTime) { [self] in
            let left = Self.untaken(context)
            writeTimer = nil
            if left > 0 { if left < before { awaitTaking(context) } else { context.close(promise: nil) } }
        }
    }

    /// The bytes that the kernel has not taken yet.
    private static func untaken(_ context: ChannelHandlerContext) -> Int {
        (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    /// The library closes our side behind its last write, and TLS waits for two seconds then: it is ours to close.
    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode == .output, isEnding else { return context.close(mode: mode, promise: promise) }
        promise?.succeed()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard !isRefused else { return }
        // An answer under way must not be torn: the library closes the connection after it.
        guard unanswered == 0, let error = error as? HTTPParserError else { return context.fireErrorCaught(error) }
        switch error {
        case .headerOverflow:
            let most = "send at most \(limits.head >> 10) KiB of headers, \(limits.headers) at most"
            refuse(context, Problem(.headTooLarge, most))
        default: refuse(context, .badRequest("these bytes are not a request of HTTP/1.1 (RFC 9112)"))
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ChannelShouldQuiesceEvent where unanswered > 0 || Self.untaken(context) > 0:
            // The library would close with the write of the last answer, and not when it is taken.
            if closeTimer == nil { closeTimer = after(limits.drainTime, context) { $0.close(promise: nil) } }
            isLastRequest = true
            if bodyTimer == nil { isRefused = true }
            if unanswered == 0 { context.close(mode: .output, promise: nil) }
            return
        case ChannelEvent.inputClosed: client.hasGone()
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        forget()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { forget() }

    /// Answers in place of the application, and closes.
    private func refuse(_ context: ChannelHandlerContext, _ problem: Problem) {
        isRefused = true
        guard unanswered == 0 else { return context.close(promise: nil) }
        let body = ByteBuffer(bytes: problem.line)
        let status = HTTPResponseStatus(statusCode: problem.status.code, reasonPhrase: problem.status.reasonPhrase)
        var head = HTTPResponseHead(version: .http1_1, status: status)
        head.headers.add(name: "Content-Type", value: "application/problem+json")
        head.headers.add(name: "Content-Length", value: "\(body.readableBytes)")
        head.headers.add(name: "Connection", value: "close")
        head.headers.add(name: "Cache-Control", value: "no-store")
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        isEnding = true
        finish(context, wrapOutboundOut(.end(nil)), nil)
        context.flush()
    }

    /// Closes behind the last answer.
    ///
    /// Closes only our side first, and drops for a moment what the client still sends: closing a connection with unread
    /// bytes resets it, and the answer may be lost.
    private func close(_ context: ChannelHandlerContext) {
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

    private func forget() {
        for timer in [bodyTimer, writeTimer, closeTimer, idleTimer] { timer?.cancel() }
        client.hasGone()
    }
}

/// A body that grew beyond the limit while it arrived.
struct RequestTooLarge: Error {}

package struct ConsoleLimits: Sendable {
    /// The size of a request's head in bytes.
    package var head = 16 << 10
    /// The number of fields in a request's head.
    package var headers = 64
    /// The size of a request's body in bytes.
    package var body = 256 << 10
    /// How long a connection may be idle, and a request's head may take.
    package var idle = TimeAmount.seconds(20)
    /// How long a request's body may take.
    package var bodyTime = TimeAmount.seconds(20)
    /// How long a client may take nothing of an answer.
    package var writeTime = TimeAmount.seconds(30)
    /// How long an answer may continue after a shutdown began.
    package var drainTime = TimeAmount.seconds(2)
    /// How long a connection may idle before its first request, and between two of a stranger's.
    package var strangerIdle = TimeAmount.seconds(5)
    /// The kernel's send buffer per connection; it counts twice as the console's memory.
    package var kernelBuffer = 128 << 10
    var table = ConnectionTable.Limits()

    package init() {}
}
