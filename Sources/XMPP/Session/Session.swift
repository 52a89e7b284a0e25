package import UpstreamKit
package import XMLWire

/// A bound stream until its end, as a pure value: each event returns what to do.
///
/// ```
/// open ──▶ finishing(ours) ──▶ closing ──▶ ended
///   │                                        ▲
///   ├────▶ finishing(the peer's) ────────────┤
///   └── stream error, violation, death ──────┘
/// ```
/// Acks are not its business: whoever holds the session writes them as long as ``canSend`` says so. With a standard server
/// it counts stanzas for stream management, in *open* only: what is not taken must not be answered for.
package struct Session: ~Copyable {
    private enum State {
        /// Stanzas flow. To every other state.
        case open
        /// Reading has stopped and messages under way are being settled; `peerClosed` tells whose wish it was.
        /// To `closing`, or, when the peer has closed, `ended`.
        case finishing(peerClosed: Bool)
        /// Our `</stream:stream>` is sent, the peer's is awaited. To `ended`.
        case closing
        /// Nothing has an effect any more.
        case ended
    }

    /// The codec of this connection.
    private var codec: UpstreamCodec
    private let configuration: SessionConfiguration
    private var keepalive: Keepalive
    private var management: StreamManagement
    private var presence: Presence
    private var state = State.open
    private var timerID: UInt64 = 0
    /// When the last timer fires, where that is known.
    private var timerDue: UInt64 = .max
    private let startedAt: UInt64
    /// Our own address, which a server may answer a ping from.
    private let address: JID
    private let domain: JID?
    private var pings: UInt64 = 0
    /// Whether the peer has announced that it will close the connection.
    package private(set) var isDraining = false
    /// Whether anything has come that the stream is there for: with it, an end by the peer's bad XML is no failure to connect.
    package private(set) var hasTakenStanza = false

    /// A session on a stream that is bound at this instant.
    ///
    /// - Parameters:
    ///   - configuration: How to run it.
    ///   - codec: A codec that this session alone uses.
    ///   - stream: What the negotiation ended with.
    ///   - now: Nanoseconds of a monotonic clock.
    package init(
        configuration: SessionConfiguration,
        codec: UpstreamCodec,
        stream: BoundStream,
        now: UInt64
    ) {
        self.configuration = configuration
        self.codec = codec
        self.codec.bound(to: stream.address, stanzaLimit: stream.stanzaLimit)
        startedAt = now
        address = stream.address
        domain = JID(configuration.domain)
        management = StreamManagement(stream.management)
        presence = Presence(stream.management)
        keepalive = Keepalive(
            interval: configuration.keepaliveInterval,
            timeout: configuration.keepaliveTimeout,
            now: now
        )
    }

    /// Whether stanzas, acks above all, may still be written: until our `</stream:stream>` is sent.
    package var canSend: Bool {
        switch state {
        case .open, .finishing: true
        case .closing, .ended: false
        }
    }

    /// The longest that the answer to our request for stream management may take.
    static let managementTimeout = Duration.seconds(30)

    /// The timer to set when the session begins.
    package mutating func start() -> SessionTimer {
        let interval = configuration.keepaliveInterval
        let delay = management.isRequested ? min(interval, Session.managementTimeout) : interval
        return timer(after: delay, from: startedAt)
    }

    /// What to do when reading was paused or resumed.
    package enum PauseAction: Sendable, Equatable {
        /// Nothing.
        case none
        /// Set the timer.
        case wait(SessionTimer)
        /// Send these bytes.
        case send([UInt8])
    }

    /// Reading was paused or resumed: silence is not taken for death, and a standard server is told of a long pause.
    package mutating func readingPaused(_ paused: Bool, now: UInt64) -> PauseAction {
        let isNews = paused != (keepalive.pause(now: now) != nil)
        keepalive.paused(paused, now: now)
        guard isNews, case .open = state, !management.isRequested else { return .none }
        guard paused else {
            if presence.becomeAvailable() { return .send(Presence.available) }
            return sooner(keepalive.due, now: now)
        }
        guard presence.isAvailable else { return .none }
        return sooner(now.addingReportingOverflow(Presence.longestPause.nanoseconds).partialValue, now: now)
    }

    /// Sets the timer where it would fire later than this: a stream that pauses all the time must not put it off for ever.
    private mutating func sooner(_ due: UInt64, now: UInt64) -> PauseAction {
        guard timerDue > due else { return .none }
        return .wait(timer(after: .nanoseconds(Int64(clamping: due > now ? due - now : 0)), from: now))
    }

    /// What to do about a stanza.
    package enum StanzaAction: Sendable {
        /// Hand it to the pipeline; count its kind.
        case deliver(IncomingMessage)
        /// Count its kind; nothing else to do.
        case note(DecodedStanza)
        /// Count its kind; the first time, open a replacement connection at once. This one goes on receiving and acking
        /// until the peer closes it.
        case drain(DecodedStanza, isFirst: Bool)
        /// Count it as `other` and send these bytes.
        case reply([UInt8])
        /// It is no stanza and not counted; send these bytes, if any.
        case answer([UInt8])
        /// Stream management is decided: send these bytes.
        case managed(StreamManagement.Outcome, [UInt8])
        /// The peer ends the stream: send these bytes and close the transport.
        case end(StreamError, [UInt8])
        /// Stanzas are no longer taken; nothing to do or to count.
        case none
    }

    /// A stanza came.
    ///
    /// - Parameters:
    ///   - stanza: Lent for the call.
    ///   - receivedAt: Microseconds since 1970-01-01 UTC.
    ///   - parsedAt: Nanoseconds of the monotonic clock.
    /// - Returns: What to do.
    package mutating func stanza(_ stanza: Stanza, receivedAt: Int64, parsedAt: UInt64) -> StanzaAction {
        guard !stanza.elements.isEmpty else { return .none }
        switch state {
        case .open: break
        case .finishing, .closing: return late(stanza)
        case .ended: return .none
        }
        switch codec.decode(stanza, receivedAt: receivedAt, parsedAt: parsedAt) {
        case .message(let message):
            hasTakenStanza = true
            return .deliver(management.isActive ? management.numbered(message) : message)
        case .other: return other(stanza, now: parsedAt)
        case let kind: return note(kind)
        }
    }

    private mutating func note(_ kind: DecodedStanza) -> StanzaAction {
        hasTakenStanza = true
        management.noted()
        guard kind.announcesDraining else { return .note(kind) }
        defer { isDraining = true }
        return .drain(kind, isFirst: !isDraining)
    }

    /// Nothing is taken any more, but for the end, and for a question that can still be answered.
    private mutating func late(_ stanza: Stanza) -> StanzaAction {
        if let error = StreamError(stanza) { return end(error) }
        guard canSend, case .send(let bytes) = management.receive(stanza) else { return .none }
        return .answer(bytes)
    }

    private mutating func other(_ stanza: Stanza, now: UInt64) -> StanzaAction {
        if let error = StreamError(stanza) { return end(error) }
        if isPong(stanza) { keepalive.answered(now: now) }
        if stanza.equals(stanza.elements[0].namespace, XMLNamespace.client) { management.noted() }
        switch management.receive(stanza) {
        case .none: break
        case .ignore: return .note(.other)
        case .send(let bytes): return .answer(bytes)
        // Presence has the server send what waits for us: now it keeps account of it, or never will.
        case .decided(let outcome):
            return .managed(outcome, presence.becomeAvailable() ? Presence.available : [])
        }
        return QueryResponder.reply(to: stanza).map { .reply($0) } ?? .note(.other)
    }

    private mutating func end(_ error: StreamError) -> StanzaAction {
        // RFC 6120 section 4.9.1.1: the one who gets a stream error closes its own stream too.
        let bytes = canSend ? goodbye() : []
        state = .ended
        return .end(error, bytes)
    }

    /// What to do when a timer fires.
    package enum TimerAction: Sendable, Equatable {
        /// It was a late one; nothing to do.
        case none
        /// Set the timer again.
        case wait(SessionTimer)
        /// Send a ping and set the timer for its answer.
        case ping([UInt8], SessionTimer)
        /// Reading has been paused for long: send these bytes, which have the server store messages, and set the timer.
        case withdraw([UInt8], SessionTimer)
        /// The peer does not answer: close the transport without ceremony and reconnect.
        case dead
        /// Waiting is over: send these bytes, if any, and close the transport.
        case close([UInt8])
        /// The server never answered our request for stream management: send these bytes and close the transport.
        case unmanaged([UInt8])
    }

    /// A timer fired.
    ///
    /// - Parameters:
    ///   - id: The timer's id.
    ///   - now: Nanoseconds of the monotonic clock.
    /// - Returns: What to do.
    package mutating func timerFired(_ id: UInt64, now: UInt64) -> TimerAction {
        guard id == timerID else { return .none }
        switch state {
        case .open where management.isRequested:
            return .unmanaged(violation(.undefinedCondition))
        case .open:
            if let pause = keepalive.pause(now: now), presence.isAvailable {
                guard pause >= Presence.longestPause else {
                    return .wait(timer(after: Presence.longestPause - pause, from: now))
                }
                _ = presence.becomeUnavailable()
                return .withdraw(Presence.unavailable, timer(after: configuration.keepaliveInterval, from: now))
            }
            switch keepalive.timerFired(now: now) {
            case .wait(let delay): return .wait(timer(after: delay, from: now))
            case .ping(let delay):
                pings += 1
                return .ping(ping, timer(after: delay, from: now))
            case .dead:
                state = .ended
                return .dead
            }
        case .finishing(peerClosed: true):
            state = .ended
            return .close(goodbye())
        case .closing:
            state = .ended
            return .close([])
        case .finishing(peerClosed: false), .ended:
            return .none
        }
    }

    private mutating func timer(after delay: Duration, from now: UInt64? = nil) -> SessionTimer {
        timerID += 1
        timerDue = now.map { $0.addingReportingOverflow(delay.nanoseconds).partialValue } ?? .max
        return SessionTimer(id: timerID, delay: delay)
    }

    private var pingID: String { "\(configuration.idPrefix)-ping-\(pings)" }

    /// Whether a stanza is the answer to the last ping: a result, or an error, which shows as well that we are heard.
    ///
    /// From the domain that was asked; servers also leave the address out or answer in the name of our account (RFC 6120
    /// section 8.1.2.1). The id can't be guessed by anybody else.
    private func isPong(_ stanza: Stanza) -> Bool {
        guard pings > 0, stanza.element(0, is: "iq", in: XMLNamespace.client),
            let type = stanza.attribute("type", of: 0), stanza.equals(type, "result") || stanza.equals(type, "error"),
            let id = stanza.attribute("id", of: 0), stanza.bytes[id].elementsEqual(pingID.utf8)
        else { return false }
        guard let from = stanza.attribute("from", of: 0) else { return true }
        guard let sender = JID(stanza.string(from)) else { return false }
        return sender == domain || sender == address || sender == address.bare
    }

    private var ping: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(xml: "<iq type=\"get\" to=\"")
        bytes.append(escaping: configuration.domain.utf8)
        bytes.append(xml: "\" id=\"")
        bytes.append(escaping: pingID.utf8)
        bytes.append(xml: "\"><ping xmlns=\"urn:xmpp:ping\"/></iq>")
        return bytes
    }

    /// The end of our stream, and how far we answer for the peer's.
    private mutating func goodbye() -> [UInt8] { management.last() + Array("</stream:stream>".utf8) }
}

// Stream management.
extension Session {
    /// Messages of this session have committed.
    ///
    /// - Returns: What tells the server so, to be sent after the messages' own acks; nil where there is nothing to tell.
    package mutating func committed(_ messages: [IncomingMessage]) -> [UInt8]? {
        guard management.isActive else { return nil }
        management.settled(messages)
        return canSend ? management.progress() : nil
    }
}

// The end.
extension Session {
    /// What to do when the session shall end.
    package enum CloseAction: Sendable, Equatable {
        /// Stop reading; settle what is under way, then call ``Session/settled()``.
        case stopReading
        /// It is ending already; nothing to do.
        case none
    }

    /// The worker wants to end this session.
    package mutating func close() -> CloseAction {
        guard case .open = state else { return .none }
        state = .finishing(peerClosed: false)
        timerID += 1
        return .stopReading
    }

    /// What to do when everything under way is settled.
    package enum SettledAction: Sendable, Equatable {
        /// Send our closing tag, set the timer, and read on until the peer's comes or the timer fires.
        case send([UInt8], SessionTimer)
        /// Send our closing tag and close the transport.
        case close([UInt8])
        /// Not asked for; nothing to do.
        case none
    }

    /// Everything that was delivered has been committed, and its acks written.
    package mutating func settled() -> SettledAction {
        switch state {
        case .finishing(peerClosed: true):
            state = .ended
            return .close(goodbye())
        case .finishing(peerClosed: false):
            state = .closing
            return .send(goodbye(), timer(after: configuration.closeTimeout))
        case .open, .closing, .ended:
            return .none
        }
    }

    /// What to do when the peer has closed its stream.
    package enum PeerClosedAction: Sendable, Equatable {
        /// Set the timer, settle what is under way, then call ``Session/settled()``: a peer that closes in order may still
        /// take acks.
        case finish(SessionTimer)
        /// Close the transport: both sides have closed.
        case close
        /// Nothing to do.
        case none
    }

    /// The peer's `</stream:stream>` came.
    package mutating func peerClosed() -> PeerClosedAction {
        switch state {
        case .open, .finishing(peerClosed: false):
            state = .finishing(peerClosed: true)
            return .finish(timer(after: configuration.closeTimeout))
        case .closing:
            state = .ended
            return .close
        case .finishing(peerClosed: true), .ended:
            return .none
        }
    }

    /// A stanza was skipped: well-formed, but too deep or too wide to be read.
    ///
    /// It is handled by that, so that a server which counts stanzas does not send it again.
    ///
    /// - Parameter name: What it was.
    /// - Returns: Whether to count it as `other`; not so where nothing is taken any more.
    package mutating func skipped(_ name: StanzaName) -> Bool {
        guard case .open = state else { return false }
        hasTakenStanza = true
        if name.isStanza { management.noted() }
        return true
    }

    /// A stanza was too long or not well-formed, so that the stream has to end.
    ///
    /// A server that counts stanzas keeps what isn't answered for and sends it again at the next login, which would then end
    /// in the same way, for good. So the stanza is answered for, in its turn: after what came before it.
    ///
    /// - Returns: Whether to settle what is under way before the ``violation(_:)``.
    package mutating func refusedStanza() -> Bool {
        guard case .open = state, management.isActive else { return false }
        management.noted()
        return true
    }

    /// The peer broke the stream's rules.
    ///
    /// - Parameter condition: Which.
    /// - Returns: What to send before the transport is closed; empty where our stream is closed already.
    package mutating func violation(_ condition: StreamErrorCondition) -> [UInt8] {
        defer { state = .ended }
        return canSend ? management.last() + StreamError.farewell(condition) : []
    }

    /// The transport is gone.
    package mutating func transportClosed() { state = .ended }
}
