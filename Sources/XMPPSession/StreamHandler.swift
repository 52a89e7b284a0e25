package import NIOCore
import TLSWire
import Telemetry
package import Vocabulary
package import XMLWire
import XMPP

/// A connection to an XMPP server: feeds the channel's events to a ``XMPP/Negotiation``, then a ``XMPP/Session``, and
/// carries out their decisions for its delegate.
///
/// Confined to the event loop. Messages are collected during a read of the socket and handed over together at its end.
package final class StreamHandler<Delegate: StreamDelegate>: ChannelInboundHandler, XMLStreamReceiver {
    package typealias InboundIn = Never
    package typealias OutboundOut = ByteBuffer

    enum Phase {
        /// Nothing is asked for yet. To `connecting` and `ended`.
        case idle
        /// TCP. To `negotiating` and `ended`.
        case connecting(Opening)
        /// TLS, SASL, bind. To `bound` and `ended`.
        case negotiating(Opening)
        /// The session decides. To `ended`.
        case bound(BoundSession)
        /// Over; the channel may still be closing, and what came over a bound stream may still be settled.
        case ended(BoundSession?)
    }

    final class Opening {
        var negotiation: Negotiation

        init(_ negotiation: consuming Negotiation) { self.negotiation = negotiation }
    }

    final class BoundSession {
        var session: Session
        let management: StreamManagement.Offer

        init(_ session: consuming Session, _ management: StreamManagement.Offer) {
            self.session = session
            self.management = management
        }
    }

    private let sharedSettings: SharedSettings
    let delegate: Delegate
    /// Whether the stream is a component's; cached, since ``settings`` would be copied for each stanza.
    let isComponent: Bool
    let clock: ArrivalClock
    let random: RandomSource
    let stream: XMLStreamHandler
    let idPrefix: String

    var phase = Phase.idle
    /// How the transport of the connected place gets its TLS.
    var security: SenderSettings.Security
    var server: ReachedServer?
    private(set) var context: ChannelHandlerContext?
    /// The negotiation's deadline, then the session's timer.
    var timer: Scheduled<Void>?
    /// Ends a stream that drains for too long.
    private var drainTimer: Scheduled<Void>?
    private var writeTimer: Scheduled<Void>?
    private var unsent: WriteWatch
    private var received: [IncomingMessage] = []
    /// The time of the current read; nil between reads.
    private var readTime: (wall: Int64, monotonic: UInt64)?
    private var isReading = true
    private var needsFlush = false

    package init(
        settings: SharedSettings,
        clock: ArrivalClock = ArrivalClock(),
        random: RandomSource = .system,
        delegate: Delegate
    ) {
        sharedSettings = settings
        let settings = settings.value
        security = settings.security
        isComponent = settings.stream.dialect == .component
        self.clock = clock
        self.random = random
        idPrefix = String(random.next(), radix: 36)
        self.delegate = delegate
        stream = XMLStreamHandler(limits: settings.limits)
        unsent = WriteWatch(limit: settings.stream.keepaliveTimeout.nanoseconds)
    }

    var settings: SenderSettings { sharedSettings.value }

    /// The stream until it is bound; otherwise nil.
    var opening: Opening? {
        switch phase {
        case .connecting(let opening), .negotiating(let opening): opening
        case .idle, .bound, .ended: nil
        }
    }

    /// The stream that is or was bound; nil if it never was.
    var bound: BoundSession? {
        switch phase {
        case .bound(let bound): bound
        case .ended(let bound): bound
        case .idle, .connecting, .negotiating: nil
        }
    }

    package func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        stream.receiver = self
        // Ended while TCP was still connecting.
        if case .ended = phase { return context.close(promise: nil) }
        if context.channel.isActive { connected() }
    }

    package func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        stream.receiver = nil
    }

    package func channelActive(context: ChannelHandlerContext) {
        connected()
        context.fireChannelActive()
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .established(let version, let cipher)? = event as? TLSEvent {
            let tls = try? context.pipeline.syncOperations.handler(type: TLSHandler.self)
            let end = tls?.peerCertificateEnd
            delegate.noticed(.encrypted(version: version, cipher: cipher, certificateEnd: end))
            transportReady(encrypted: true, bindings: tls?.channelBindings ?? [])
        }
        context.fireUserInboundEventTriggered(event)
    }

    package func received(_ event: XMLStreamEvent) {
        guard let context else { return }
        switch phase {
        case .connecting(let opening), .negotiating(let opening): negotiate(event, opening, context)
        case .bound(let bound): receive(event, bound)
        case .idle, .ended: break
        }
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        handOver()
        readTime = nil
        delegate.readEnded()
        updateReading()
        flush()
        context.fireChannelReadComplete()
    }

    package func channelWritabilityChanged(context: ChannelHandlerContext) {
        updateReading()
        context.fireChannelWritabilityChanged()
    }

    package func channelInactive(context: ChannelHandlerContext) {
        handOver()
        transportClosed()
        context.fireChannelInactive()
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        handOver()
        failed(error)
    }

    func handOver() {
        guard !received.isEmpty else { return }
        delegate.received(&received)
    }

    /// Writes bytes; they are sent at the end of the current read, or by ``flush()``.
    func write(_ bytes: [UInt8]) {
        guard !bytes.isEmpty, let context else { return }
        write(context.channel.allocator.buffer(bytes: bytes), in: context) { _ in }
    }

    /// Writes a buffer, and reports whether the kernel has taken it.
    func write(
        _ buffer: ByteBuffer,
        in context: ChannelHandlerContext,
        _ ended: @escaping (Result<Void, any Error>) -> Void
    ) {
        let number = unsent.wrote(now: clock.monotonic())
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenComplete { result in
            self.unsent.ended(number)
            ended(result)
        }
        context.write(wrapOutboundOut(buffer), promise: promise)
        needsFlush = true
    }

    func flush() {
        guard needsFlush else { return }
        needsFlush = false
        context?.flush()
        watchWrites()
    }

    /// Bounds how long what was written waits for a peer that accepts nothing.
    private func watchWrites() {
        guard writeTimer == nil, let context else { return }
        if case .ended = phase { return }
        let now = clock.monotonic()
        look(now)
        guard let due = unsent.due else { return }
        let delay = TimeAmount.nanoseconds(Int64(clamping: min(due > now ? due - now : 0, unsent.interval)))
        writeTimer = context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
            self.writeTimer = nil
            let now = self.clock.monotonic()
            self.look(now)
            guard let due = self.unsent.due, now >= due else { return self.watchWrites() }
            self.end(.pingTimeout, "the peer takes nothing of what we send: the connection is dead")
            self.closeChannel()
        }
    }

    private func look(_ now: UInt64) {
        unsent.patience = bound?.session.writePatience ?? 1
        unsent.look(context?.channel.sentBytes, now: now)
    }

    func cancelTimers() {
        timer?.cancel()
        drainTimer?.cancel()
        writeTimer?.cancel()
    }

    /// Closes the channel; TLS sends close_notify.
    func closeChannel() {
        flush()
        context?.close(promise: nil)
    }

    /// Reads exactly while the session wants input and, lest acks pile up here, the peer accepts our writes.
    func updateReading() {
        guard case .bound(let bound) = phase, let context else { return }
        let hasRoom = !Delegate.takesMessages || context.channel.isWritable
        if hasRoom == bound.session.isBlocked {
            let settlement = bound.session.writable(hasRoom, now: clock.monotonic())
            if let timer = settlement.timer { setTimer(timer) }
        }
        let wanted = bound.session.wantsInput
        guard wanted != isReading else { return }
        isReading = wanted
        _ = try? context.channel.syncOptions?.setOption(.autoRead, value: wanted)
    }

    // MARK: The bound stream

    private func receive(_ event: XMLStreamEvent, _ bound: BoundSession) {
        switch event {
        case .stanza(let stanza): receive(stanza, bound)
        case .skipped(let stanza):
            if bound.session.skipped(stanza.name, id: stanza.id) { delegate.noticed(.skipped(stanza.reason)) }
        case .closed: perform(bound.session.peerClosed())
        case .opened: break
        }
    }

    private func receive(_ stanza: Stanza, _ bound: BoundSession) {
        let time = readTime ?? (clock.now(), clock.monotonic())
        readTime = time
        // All readers know the client namespace alone; the raw bytes stay unchanged.
        if isComponent { stanza.moveElements(from: XMLNamespace.component, to: XMLNamespace.client) }
        let moment = clock.uniqueMoment(near: time.monotonic)
        let receivedAt = clock.unique(near: time.wall &+ Int64(moment / 1_000 &- time.monotonic / 1_000))
        let following = stream.unreadBytes
        let action = bound.session.stanza(
            stanza,
            receivedAt: receivedAt,
            parsedAt: time.monotonic,
            following: following
        )
        // Consumed: else the message would be copied out of it.
        switch consume action {
        case .deliver(var message, let timer):
            message.parsedAt = moment
            received.append(message)
            if let timer { setTimer(timer) }
        case .deliverAll(let messages, let timer):
            for var message in messages {
                // Each copy has its own times.
                message.parsedAt = clock.uniqueMoment(near: time.monotonic)
                message.receivedAt = clock.unique(near: receivedAt)
                received.append(message)
            }
            if let timer { setTimer(timer) }
        case .note(let kind):
            note(kind, stanza)
        case .drain(let kind, let timer):
            note(kind, stanza)
            if let timer { drain(timer, bound.session.boundTime(now: time.monotonic)) }
        case .reply(let bytes):
            delegate.noticed(.counted)
            write(bytes)
        case .answer(let bytes): write(bytes)
        case .managed(let outcome): delegate.noticed(.managed(outcome))
        case .rival:
            note(.other, stanza)
            delegate.noticed(.rival)
        case .end(let bytes, let outcome): end(bytes, outcome)
        case .none: break
        }
    }

    private func note(_ kind: DecodedStanza, _ stanza: Stanza) {
        guard let reason = delegate.noted(kind, in: stanza) else { return }
        end(.streamClosed, reason)
        closeChannel()
    }

    private func drain(_ timer: SessionTimer, _ boundTime: Duration) {
        guard let context else { return }
        delegate.noticed(.draining(bound: boundTime))
        drainTimer = schedule(timer, context)
    }

    func setTimer(_ timer: SessionTimer) {
        guard let context else { return }
        self.timer?.cancel()
        self.timer = schedule(timer, context)
    }

    private func schedule(_ timer: SessionTimer, _ context: ChannelHandlerContext) -> Scheduled<Void> {
        context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(timer.delay)) { self.timerFired(timer.id) }
    }

    private func timerFired(_ id: UInt64) {
        guard case .bound(let bound) = phase else { return }
        switch bound.session.timerFired(id, now: clock.monotonic(), sent: context?.channel.sentBytes) {
        case .wait(let timer): setTimer(timer)
        case .ping(let bytes, let timer), .refresh(let bytes, let timer):
            write(bytes)
            setTimer(timer)
        case .withdraw(let bytes, let timer):
            delegate.noticed(.withdrawn)
            write(bytes)
            setTimer(timer)
        case .leave(let step): perform(step)
        case .drainExpired(let step):
            delegate.noticed(.drainExpired)
            perform(step)
        case .end(let bytes, let outcome): end(bytes, outcome)
        case .none: break
        }
        flush()
    }
}
