import NIOCore
import NIOPosix
import TLSWire
import XMLWire

/// A connection's channel handler: acts on the decisions of negotiation and ``EmulatorCore``, and holds its faults.
final class ConnectionHandler: ChannelInboundHandler, XMLStreamReceiver {
    typealias InboundIn = Never
    typealias OutboundOut = ByteBuffer

    enum Phase: Equatable {
        case negotiating
        case bound
        /// CONNECTION_DRAINING was sent; this many messages may follow while no other connection is bound.
        case draining(messages: Int)
        /// The emulator has ended its stream, or the peer must; acks still count.
        case ending
        case closed
    }

    let number: Int
    let core: EmulatorCore
    let stream: XMLStreamHandler
    let cutter = TransportCutter()
    private var negotiation: ServerNegotiation
    var phase = Phase.negotiating
    /// The sender's messages, and this connection's slot in its book; nil until bound.
    var pool: SenderPool?
    var slot = 0
    private let negotiationFaults: [Fault]
    /// Whether a fault keeps it from reading and writing.
    var isStalled = false
    /// Whether the client sends messages itself, for the workers of its account.
    var isSource = false
    var isSilent = false
    /// Whether a fault justifies the peer's error or end of the connection.
    var expectsBreak = false
    /// Output queued behind a stanza that is being written in pieces; nil if none is.
    private var held: ByteBuffer?
    private var context: ChannelHandlerContext?
    private(set) var isShownInTranscript = false
    private var hasPeerEnded = false

    init(number: Int, core: EmulatorCore, negotiation: ServerNegotiation, faults: [Fault], stream: XMLStreamHandler) {
        self.number = number
        self.core = core
        self.negotiation = negotiation
        self.stream = stream
        negotiationFaults = faults
        isSilent = faults.contains(.mute)
    }

    var canDeliver: Bool {
        guard let context, held == nil, !isStalled, !isSilent, !isSource, context.channel.isWritable else {
            return false
        }
        return switch phase {
        case .bound: true
        case .draining(let messages): messages > 0
        case .negotiating, .ending, .closed: false
        }
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        stream.receiver = self
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        stream.receiver = nil
    }

    func received(_ event: XMLStreamEvent) {
        guard !isSilent, phase != .closed else { return }
        switch event {
        case .opened(let header):
            let domain = header.attribute("to", of: 0).map { header.string($0) }
            perform(negotiation.opened(to: domain, streamID: core.streamID(number)))
        case .stanza(let stanza):
            if stanza.element(0, is: "error", in: Namespace.stream) {
                core.count(\.streamErrors, expectsBreak ? nil : "the peer sent a stream error", on: self)
                end()
            } else if pool != nil {
                core.received(stanza, on: self)
            } else {
                perform(negotiation.received(stanza, resource: core.resource(number)))
            }
        case .skipped(let stanza):
            broken(by: "a stanza over the limits: \(stanza.reason.rawValue)", condition: "policy-violation")
        case .closed:
            hasPeerEnded = true
            if phase != .ending { write(ServerStanzas.streamEnd) }
            close()
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event as? TLSEvent == .closedCleanly, hasPeerEnded { core.count(\.orderlyEnds, on: self) }
        context.fireUserInboundEventTriggered(event)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        core.pump(self)
        core.finishDraining(self)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) { core.pump(self) }

    func channelInactive(context: ChannelHandlerContext) { core.closed(self) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? XMLStreamError else { return close() }
        broken(by: error.message, condition: String(describing: error.condition))
    }

    private func broken(by what: String, condition: String) {
        if !expectsBreak, phase != .closed { core.count(\.brokenStreams, what, on: self) }
        write(ServerStanzas.streamError(condition) + ServerStanzas.streamEnd)
        close()
    }

    private func perform(_ actions: [ServerNegotiation.Action]) {
        for action in actions {
            switch action {
            case .write(let text): write(text)
            case .startTLS: startTLS()
            case .restart: stream.reset()
            case .signedIn:
                isShownInTranscript = true
                if negotiationFaults.contains(.closeAfterAuth) { return close() }
            case .refused: core.count(\.refusals, on: self)
            case .bound(let sender):
                if negotiationFaults.contains(.closeAfterBind) { return close() }
                phase = .bound
                core.bind(self, sender: sender)
            case .violation(let condition):
                core.count(\.brokenStreams, "the set-up of the stream ended with \(condition)", on: self)
                end(error: condition)
            }
        }
    }

    private func startTLS() {
        guard let context, stream.unreadBytes == 0 else {
            core.count(\.brokenStreams, "bytes before the TLS handshake", on: self)
            return close()
        }
        stream.reset()
        negotiation.secured()
        do {
            try context.pipeline.syncOperations.addHandler(core.makeTLSHandler(), position: .after(cutter))
        } catch {
            close()
        }
    }

    func write(_ text: String) { write(ByteBuffer(string: text)) }

    func write(_ bytes: [UInt8]) { write(ByteBuffer(bytes: bytes)) }

    /// Writes and flushes, or queues behind a stanza that is being written in pieces.
    func write(_ bytes: ByteBuffer) {
        guard let context, phase != .closed, !isSilent else { return }
        if held != nil {
            held?.writeImmutableBuffer(bytes)
        } else {
            context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
        }
    }

    /// Writes the bytes up to `place`, and the rest after a delay.
    func writeTorn(_ bytes: ByteBuffer, at place: Int, after delay: TimeAmount) {
        var rest = bytes
        guard held == nil, let context, let head = rest.readSlice(length: min(place, bytes.readableBytes)) else {
            return write(bytes)
        }
        write(head)
        held = rest
        context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
            guard let held = self.held.take() else { return }
            self.write(held)
            self.core.pump(self)
        }
    }

    func pause(reading: Bool, writing: Bool, for time: TimeAmount) {
        guard let context else { return }
        if writing { isStalled = true }
        if reading { setAutoRead(false) }
        context.eventLoop.assumeIsolated().scheduleTask(in: time) {
            if writing { self.isStalled = false }
            if reading { self.setAutoRead(true) }
            self.core.pump(self)
        }
    }

    private func setAutoRead(_ value: Bool) {
        guard let options = context?.channel.syncOptions else { return }
        try? options.setOption(.autoRead, value: value)
    }

    /// Ends the stream, with a stream error if given; the peer has ``EmulatorConfiguration/closeTimeout`` to answer.
    func end(error condition: String? = nil) {
        guard let context, phase != .ending, phase != .closed else { return }
        write((condition.map(ServerStanzas.streamError) ?? "") + ServerStanzas.streamEnd)
        phase = .ending
        context.eventLoop.assumeIsolated().scheduleTask(in: core.configuration.closeTimeout) { self.close() }
    }

    /// Closes at once, with close_notify; later input is ignored.
    func close() {
        guard let context, phase != .closed else { return }
        phase = .closed
        core.closed(self)
        context.close(promise: nil)
    }

    /// Closes without TLS's close_notify; with `reset`, by a TCP reset.
    func cut(reset: Bool) {
        guard phase != .closed else { return }
        phase = .closed
        core.closed(self)
        cutter.cut(reset: reset)
    }
}

/// A handler next to the socket, whose close bypasses TLS.
final class TransportCutter: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private var context: ChannelHandlerContext?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func cut(reset: Bool) {
        guard let context else { return }
        if reset {
            // Completes at once on the event loop.
            _ = (context.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
        }
        context.close(promise: nil)
    }
}

final class TranscriptTap: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let connection: ConnectionHandler

    init(_ connection: ConnectionHandler) { self.connection = connection }

    private func record(_ bytes: ByteBuffer, _ direction: String, isShown: Bool) {
        connection.core.transcript?.record(bytes, direction, of: connection.number, isShown: isShown)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        record(unwrapInboundIn(data), "in", isShown: connection.isShownInTranscript)
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        record(unwrapOutboundIn(data), "out", isShown: true)
        context.write(data, promise: promise)
    }
}
