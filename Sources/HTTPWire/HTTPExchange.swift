import NIOCore
package import NIOHTTP1
package import TLSWire

/// A request with its whole body; `Host` and `Content-Length` are added.
package struct HTTPRequest: Sendable {
    package var method: HTTPMethod
    /// Path and query.
    package var target: String
    package var headers: HTTPHeaders
    package var body: [UInt8]
    /// The most bytes of the answer's body that are kept.
    package var keptLimit = 64 * 1024

    package init(_ method: HTTPMethod, _ target: String, headers: HTTPHeaders = [:], body: [UInt8] = []) {
        (self.method, self.target, self.headers, self.body) = (method, target, headers, body)
    }
}

/// An answer to a request.
package struct HTTPAnswer: Sendable {
    package var status: Int
    package var headers: HTTPHeaders
    /// The start of the body: up to the request's limit, and what came in time.
    package var body: [UInt8] = []
    /// Whether the body came to its end: otherwise the peer may have said more.
    package var isWhole = false
}

/// Why a request has no answer.
package enum HTTPFailure: Error, CustomStringConvertible {
    /// There was none by the deadline.
    case timeout
    /// No connection was made.
    case unreachable(String)
    case tls(TLSError)
    /// The connection ended before an answer began.
    case closed
    /// What came is not HTTP.
    case malformed(String)
    case cancelled

    /// One or two words, from a closed set.
    package var name: String {
        switch self {
        case .timeout: "timeout"
        case .unreachable: "connection failed"
        case .tls(let error): error.shortDescription
        case .closed: "connection closed"
        case .malformed: "answer malformed"
        case .cancelled: "cancelled"
        }
    }

    package var description: String {
        switch self {
        case .timeout: "no answer in time"
        case .unreachable(let text): "no connection: \(text)"
        case .tls(let error) where error.code == .plaintextPeer: "the endpoint does not speak TLS on this port"
        case .tls(let error): "TLS failed: \(error.message)"
        case .closed: "the connection was closed before an answer"
        case .malformed(let text): "the answer is not HTTP: \(text)"
        case .cancelled: "cancelled"
        }
    }

    /// What a channel's error means.
    init(_ error: any Error) {
        switch error {
        case let error as HTTPFailure: self = error
        case let error as TLSError where error.code == .io || error.code == .truncated: self = .closed
        case let error as TLSError where error.code == .handshakeTimeout: self = .timeout
        case let error as TLSError: self = .tls(error)
        case HTTPParserError.invalidEOFState: self = .closed
        case let error as HTTPParserError: self = .malformed("\(error)")
        default: self = .closed
        }
    }
}

/// The end of a connection that speaks HTTP/1.1: one request and its answer at a time (RFC 9112).
///
/// Used on its event loop only.
final class HTTPExchangeHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    /// How an exchange ended: with an answer, and whether the connection serves another request.
    typealias Outcome = (answer: HTTPAnswer, isReusable: Bool)

    /// The most bytes of a body that are read, beyond those that are kept, so that the connection can be used again.
    private static let bodyLimit = 64 * 1024

    fileprivate struct Exchange {
        let request: HTTPRequest
        let promise: EventLoopPromise<Outcome>
        let timer: Scheduled<Void>
        var isSent = false
        var head: HTTPResponseHead?
        var kept: [UInt8] = []
        var received = 0
    }

    private let authority: String
    /// Whether the request waits for the end of the TLS handshake.
    private let isSecure: Bool
    private let onClosed: @Sendable () -> Void
    private var exchange: Exchange?
    private var context: ChannelHandlerContext?
    private var isReady = false
    private var wasUsed = false
    /// Why no further request is served.
    private var end: HTTPFailure?

    init(authority: String, isSecure: Bool, onClosed: @escaping @Sendable () -> Void) {
        (self.authority, self.isSecure, self.onClosed) = (authority, isSecure, onClosed)
    }

    /// Sends a request, once connected.
    func start(
        _ request: HTTPRequest,
        until deadline: NIODeadline,
        on loop: any EventLoop,
        _ promise: EventLoopPromise<Outcome>
    ) {
        // A connection that was used before may end for any reason before it is used again.
        if let end { return promise.fail(wasUsed ? .closed : end) }
        let timer = loop.assumeIsolated().scheduleTask(deadline: deadline) { self.fail(.timeout) }
        exchange = Exchange(request: request, promise: promise, timer: timer)
        send()
    }

    /// Ends what is under way, and the connection.
    func fail(_ failure: HTTPFailure) {
        end = end ?? failure
        if let exchange = exchange.take() {
            exchange.timer.cancel()
            switch (failure, exchange.answer) {
            case (.cancelled, _), (_, nil): exchange.promise.fail(failure)
            // The status counts even if the body breaks off.
            case (_, let answer?): exchange.promise.succeed((answer, false))
            }
        }
        onClosed()
        context?.close(promise: nil)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if context.channel.isActive, !isSecure { ready() }
        if end != nil { context.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        fail(.closed)
    }

    func channelActive(context: ChannelHandlerContext) {
        if end != nil { return context.close(promise: nil) }
        if !isSecure { ready() }
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .established = event as? TLSEvent { ready() }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(.closed)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { fail(HTTPFailure(error)) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // An answer to nothing.
        guard exchange != nil else { return fail(.closed) }
        switch unwrapInboundIn(data) {
        case .head(let head): exchange?.head = head
        case .body(let bytes):
            exchange?.append(bytes)
            // The rest would cost more than another connection.
            if let exchange, exchange.received > max(Self.bodyLimit, exchange.request.keptLimit) { fail(.closed) }
        case .end: finish()
        }
    }

    private func finish() {
        guard let ended = exchange.take(), var answer = ended.answer, let head = ended.head else {
            return fail(.closed)
        }
        answer.isWhole = true
        ended.timer.cancel()
        wasUsed = true
        let isReusable = head.isKeepAlive && head.status != .switchingProtocols
        ended.promise.succeed((answer, isReusable))
        if !isReusable { fail(.closed) }
    }

    private func ready() {
        isReady = true
        send()
    }

    private func send() {
        guard isReady, let context, let exchange, !exchange.isSent else { return }
        self.exchange?.isSent = true
        let request = exchange.request
        var head = HTTPRequestHead(
            version: .http1_1,
            method: request.method,
            uri: request.target,
            headers: request.headers
        )
        head.headers.replaceOrAdd(name: "host", value: authority)
        if request.method == .POST { head.headers.replaceOrAdd(name: "content-length", value: "\(request.body.count)") }
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !request.body.isEmpty {
            let body = context.channel.allocator.buffer(bytes: request.body)
            context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
}

extension HTTPExchangeHandler.Exchange {
    /// The answer as far as it has come; nil before its head.
    fileprivate var answer: HTTPAnswer? {
        head.map { HTTPAnswer(status: Int($0.status.code), headers: $0.headers, body: kept) }
    }

    fileprivate mutating func append(_ bytes: ByteBuffer) {
        kept += bytes.readableBytesView.prefix(request.keptLimit - kept.count)
        received += bytes.readableBytes
    }
}
