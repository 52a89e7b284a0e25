import Logging
import NIOCore
import Pipeline
import TLSWire
import Telemetry
import UpstreamKit
import XMLWire
import XMPP

/// Runs the negotiation and the session of one connection: feeds them events and does what they decide.
///
/// Confined to the connection's event loop. Stanzas are collected while a socket read is handled and handed to the
/// ingest queue in one piece at its end; acks come back in batches and leave in one write.
final class SessionHandler: ChannelInboundHandler {
    typealias InboundIn = XMLStreamEvent
    typealias OutboundOut = ByteBuffer

    /// Where the connection is.
    enum Phase {
        /// TCP, TLS, SASL, bind. To `bound` and `ended`.
        case negotiating
        /// Stanzas flow, or the stream is being closed in order. To `ended`.
        case bound(since: NIODeadline)
        /// Over; the channel may still be closing.
        case ended
    }

    let settings: SenderSettings
    let purpose: Connection.Purpose
    let environment: Connection.Environment
    let stream: XMLStreamHandler
    /// The connection, which holds this handler: let go of at the end, after which nothing is handed over.
    var sink: (any AckSink)?
    let encoder: AckEncoder
    let idPrefix: String
    let turnPromise: EventLoopPromise<ConnectionTurn>
    let endPromise: EventLoopPromise<SessionEnd>
    var logger: Logger

    var phase = Phase.negotiating
    /// Made once the secret has been read.
    var opening: StreamOpening?
    var session: Session?
    var window: InFlightWindow
    var channel: (any Channel)?
    var context: ChannelHandlerContext?
    /// The state that the gauges count this connection in; nil before it begins and after its end.
    var gauge: ConnectionState?
    /// The negotiation's deadline, then the session's timer.
    var timer: Scheduled<Void>?
    /// Ends a stream that is draining for too long.
    var drainTimer: Scheduled<Void>?
    /// Looks after writes that wait.
    var writeTimer: Scheduled<Void>?
    /// How long writes wait.
    var unsent: WriteWatch
    /// What the server has of stream management; nil until the stream is bound.
    var management: StreamManagement.Offer?
    /// Copies of the read in hand.
    var pending: [IncomingMessage] = []
    /// Copies of the read in hand by kind, in the order of ``IncomingMessage/Kind``.
    var pendingKinds = (upstream: 0, receipt: 0, malformed: 0)
    /// The time of the read in hand; nil between reads.
    var readTime: (wall: Int64, monotonic: UInt64)?
    /// Whether reading has ended for good, but for the peer's closing tag.
    var isClosing = false
    /// Why the stream ends once everything is settled, other than by our will.
    var refusal: XMLStreamError?
    /// Told when nothing is under way any more.
    var emptied: EventLoopPromise<Void>?
    /// Whether the channel is told to read by itself.
    var isReading = true
    /// Whether a write waits for its flush.
    var needsFlush = false

    init(
        settings: SenderSettings,
        purpose: Connection.Purpose,
        environment: Connection.Environment,
        logger: Logger,
        sink: any AckSink,
        turn: EventLoopPromise<ConnectionTurn>,
        end: EventLoopPromise<SessionEnd>
    ) {
        self.settings = settings
        self.purpose = purpose
        self.environment = environment
        self.logger = logger
        self.sink = sink
        turnPromise = turn
        endPromise = end
        stream = XMLStreamHandler(limits: settings.limits)
        encoder = AckEncoder(dialect: settings.dialect)
        window = InFlightWindow(window: settings.window)
        unsent = WriteWatch(limit: settings.keepaliveTimeout.nanoseconds)
        idPrefix = String(UInt64.random(in: .min ... .max), radix: 36)
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        channel = context.channel
        // Ended while TCP was still connecting.
        if case .ended = phase { return context.close(promise: nil) }
        if context.channel.isActive, let opening { proceed(opening.connected()) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        if let opening { proceed(opening.connected()) }
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .established(let version, let cipher)? = event as? TLSEvent {
            logger.event(
                .debug,
                .connecting,
                "TLS is established",
                [.version: .string(version), .state: .string(cipher)]
            )
            if let opening { proceed(opening.encrypted()) }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let event = unwrapInboundIn(data)
        switch phase {
        case .negotiating: if let opening { proceed(opening.read(event, context)) }
        case .bound: receive(event)
        case .ended: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        submitPending()
        readTime = nil
        flush()
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        updateReading()
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        submitPending()
        transportClosed()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        submitPending()
        failed(error)
    }

    // MARK: Effects that all phases share

    /// Writes bytes; they leave with the end of the read in hand, or with ``flush()``.
    func write(_ bytes: [UInt8]) {
        guard !bytes.isEmpty, let context else { return }
        write(context.channel.allocator.buffer(bytes: bytes), in: context) { _ in }
    }

    /// Writes a buffer, and tells whether the kernel has taken it.
    func write(
        _ buffer: ByteBuffer,
        in context: ChannelHandlerContext,
        _ ended: @escaping (Result<Void, any Error>) -> Void
    ) {
        let number = unsent.wrote(now: ArrivalClock.monotonicNanoseconds())
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenComplete { result in
            self.unsent.ended(number)
            ended(result)
        }
        context.write(wrapOutboundOut(buffer), promise: promise)
        needsFlush = true
    }

    /// Sends what was written.
    func flush() {
        guard needsFlush else { return }
        needsFlush = false
        context?.flush()
        watchWrites()
    }

    /// Sees to it that a write which the peer does not take is not waited for without end.
    private func watchWrites() {
        guard writeTimer == nil, let due = unsent.due, let context else { return }
        if case .ended = phase { return }
        let now = ArrivalClock.monotonicNanoseconds()
        let delay = TimeAmount.nanoseconds(Int64(clamping: due > now ? due - now : 0))
        writeTimer = context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
            self.writeTimer = nil
            let now = ArrivalClock.monotonicNanoseconds()
            guard let due = self.unsent.due, now >= due else { return self.watchWrites() }
            self.end(.pingTimeout, "the peer takes nothing of what we send: the connection is dead")
            self.context?.close(promise: nil)
        }
    }

    /// Closes the channel; TLS says close_notify.
    func closeChannel() {
        flush()
        context?.close(promise: nil)
    }

    /// Reads exactly while the window has room, the peer takes what we write, and the stream is not being closed.
    ///
    /// A peer that takes no acks would otherwise let them pile up here. It is not excused from answering a ping
    /// meanwhile, nor is a write that waits: it is found dead in the end.
    func updateReading() {
        let wanted = !window.isPaused && (channel?.isWritable ?? true) && !isClosing
        guard wanted != isReading else { return }
        isReading = wanted
        _ = try? channel?.syncOptions?.setOption(.autoRead, value: wanted)
    }

    /// Moves the connection to another gauge.
    func count(as state: ConnectionState?) {
        let metrics = environment.metrics
        if let gauge { metrics.connections(sender: settings.index, state: gauge).add(-1) }
        if let state { metrics.connections(sender: settings.index, state: state).add(1) }
        gauge = state
    }
}
