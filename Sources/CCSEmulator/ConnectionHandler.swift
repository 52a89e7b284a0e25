import NIOCore
import NIOPosix
import TLSWire
import XMLWire

/// One connection: carries out what the negotiation and ``EmulatorCore`` decide, and holds the state of the faults that
/// were done to it.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = XMLStreamEvent
    typealias OutboundOut = ByteBuffer

    /// Whether messages may go out.
    enum Phase: Equatable {
        /// Not bound yet.
        case negotiating
        /// Messages flow.
        case bound
        /// Bound, CONNECTION_DRAINING was sent; so many messages may still follow while no other connection is there.
        case draining(messages: Int)
        /// The emulator's stream has ended, or the peer must end it; acks still count.
        case ending
        /// Closed; what still arrives is ignored.
        case closed
    }

    /// Counted from 1 as connections are accepted.
    let number: Int
    let core: EmulatorCore
    let stream: XMLStreamHandler
    private(set) var negotiation: ServerNegotiation
    var phase = Phase.negotiating
    /// The sender's messages, and this connection's place in its book; nil until bound.
    var pool: SenderPool?
    var slot = 0
    /// Faults of the set-up that are still to come.
    var negotiationFaults: [Fault]
    /// Neither reads nor writes.
    var isStalled = false
    /// Sends messages itself, for the workers of its account.
    var isSource = false
    /// Sends and answers nothing any more.
    var isSilent = false
    /// Whether an end of the connection or an error of the peer was called for.
    var expectsBreak = false
    /// What waits behind a stanza that is written piece by piece; nil where nothing is.
    private var held: ByteBuffer?
    private(set) var context: ChannelHandlerContext?
    private(set) var isShownInTranscript = false
    /// Whether the peer has ended its stream.
    private var hasPeerEnded = false

    init(number: Int, core: EmulatorCore, negotiation: ServerNegotiation, faults: [Fault], stream: XMLStreamHandler) {
        self.number = number
        self.core = core
        self.negotiation = negotiation
        self.stream = stream
        negotiationFaults = faults
        isSilent = faults.contains(.mute)
    }

    /// Whether a message may be written now.
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

    // MARK: events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isSilent, phase != .closed else { return }
        switch unwrapInboundIn(data) {
        case .opened(let header):
            let domain = header.attribute("to", of: 0).map { header.string($0) }
            perform(negotiation.opened(to: domain, streamID: core.streamID(number)))
        case .stanza(let stanza):
            if stanza.element(0, is: "error", in: "http://etherx.jabber.org/streams") {
                core.peerSentStreamError(self)
                end()
            } else if pool != nil {
                core.received(stanza, on: self)
            } else {
                perform(negotiation.received(stanza, resource: core.resource(number)))
            }
        case .skipped(let stanza):
            broken(by: "a stanza over the limits: \(stanza.reason.shortDescription)", condition: "policy-violation")
        case .closed:
            hasPeerEnded = true
            if phase != .ending { write(ServerStanzas.streamEnd) }
            close()
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event as? TLSEvent == .closedCleanly, hasPeerEnded { core.peerEndedInOrder() }
        context.fireUserInboundEventTriggered(event)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        core.readComplete(self)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        core.pump(self)
    }

    func channelInactive(context: ChannelHandlerContext) {
        core.closed(self)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? XMLStreamError else { return close() }
        broken(by: error.message, condition: String(describing: error.condition))
    }

    /// The peer has broken the stream's rules.
    private func broken(by what: String, condition: String) {
        if !expectsBreak, phase != .closed { core.peerBrokeStream(self, why: what) }
        write(ServerStanzas.streamError(condition) + ServerStanzas.streamEnd)
        close()
    }

    private func perform(_ actions: [ServerNegotiation.Action]) {
        for action in actions {
            switch action {
            case .write(let text):
                write(text)
            case .startTLS:
                startTLS()
            case .restart:
                stream.reset()
            case .signedIn:
                isShownInTranscript = true
                if negotiationFaults.contains(.closeAfterAuth) { return close() }
            case .refused:
                core.refused(self)
            case .bound(let sender):
                if negotiationFaults.contains(.closeAfterBind) { return close() }
                phase = .bound
                core.bind(self, sender: sender)
            case .violation(let condition):
                core.peerBrokeStream(self, why: "the set-up of the stream ended with \(condition)")
                end(error: condition)
            }
        }
    }

    private func startTLS() {
        guard let context, stream.unreadBytes == 0, let cutter = core.cutters[number] else {
            core.peerBrokeStream(self, why: "bytes before the TLS handshake")
            return close()
        }
        stream.reset()
        negotiation.secured()
        do {
            let handler = try core.makeTLSHandler()
            try context.pipeline.syncOperations.addHandler(handler, position: .after(cutter))
        } catch {
            close()
        }
    }

    // MARK: writing

    /// Writes and flushes, or waits behind a stanza that is being written in pieces.
    func write(_ text: String) {
        write(ByteBuffer(string: text))
    }

    /// Writes and flushes, or waits behind a stanza that is being written in pieces.
    func write(_ bytes: ByteBuffer) {
        guard let context, phase != .closed, !isSilent else { return }
        if held != nil {
            held?.writeImmutableBuffer(bytes)
        } else {
            context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
        }
    }

    /// Writes the bytes up to a place, and the rest after a while.
    func writeTorn(_ bytes: ByteBuffer, at place: Int, after delay: TimeAmount) {
        var rest = bytes
        guard held == nil, let context, let head = rest.readSlice(length: min(place, bytes.readableBytes)) else {
            return write(bytes)
        }
        write(head)
        held = rest
        context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
            guard let held = self.held else { return }
            self.held = nil
            self.write(held)
            self.core.pump(self)
        }
    }

    /// Writes and flushes each byte for itself.
    func writeBytewise(_ bytes: ByteBuffer) {
        for byte in bytes.readableBytesView { write(ByteBuffer(bytes: [byte])) }
    }

    // MARK: faults

    /// Neither reads nor writes, or only does not read, for a while.
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

    // MARK: endings

    /// Ends the stream in order, with a stream error if there is one; the peer has ``EmulatorConfiguration/closeTimeout``.
    func end(error condition: String? = nil) {
        guard let context, phase != .ending, phase != .closed else { return }
        write((condition.map(ServerStanzas.streamError) ?? "") + ServerStanzas.streamEnd)
        phase = .ending
        context.eventLoop.assumeIsolated().scheduleTask(in: core.configuration.closeTimeout) { self.close() }
    }

    /// Closes at once, with close_notify; what arrives later is ignored.
    func close() {
        guard let context, phase != .closed else { return }
        phase = .closed
        core.closed(self)
        context.close(promise: nil)
    }

    /// Closes without TLS's close_notify; with `reset` by a TCP reset.
    func cut(reset: Bool) {
        guard phase != .closed else { return }
        let cutter = core.cutters[number]
        phase = .closed
        core.closed(self)
        cutter?.cut(reset: reset)
    }
}

/// Stands next to the socket, where a close passes TLS by.
final class TransportCutter: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private var context: ChannelHandlerContext?

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    /// Closes the socket.
    func cut(reset: Bool) {
        guard let context else { return }
        if reset {
            // On the event loop, so set when the call returns.
            _ = (context.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
        }
        context.close(promise: nil)
    }
}

/// Writes what passes to the transcript.
final class TranscriptTap: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let transcript: Transcript
    private let connection: ConnectionHandler

    init(transcript: Transcript, connection: ConnectionHandler) {
        self.transcript = transcript
        self.connection = connection
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        transcript.record(
            unwrapInboundIn(data),
            connection: connection.number,
            direction: .received,
            isShown: connection.isShownInTranscript
        )
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        transcript.record(unwrapOutboundIn(data), connection: connection.number, direction: .sent, isShown: true)
        context.write(data, promise: promise)
    }
}
