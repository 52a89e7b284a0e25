package import Vocabulary
package import XMLWire

/// A bound stream until its end, as a pure value (drawn in docs/state-machines.md).
///
/// *Settled* means that every delivered message has been reported to ``committed(_:size:now:)``; with nothing in flight
/// `finishing` ends at once. The caller writes acks as long as ``canSend`` is true and before it reports the commit.
/// With a standard server stanzas are counted for stream management, in `open` only: no other is answered for.
package struct Session: ~Copyable {
    /// Who ends the stream.
    enum Cause {
        /// The worker: a shutdown, or a stream that drains for too long.
        case ours
        /// The peer, which has sent its closing tag.
        case peers
        /// A stanza could not be read; it is answered for after those before it, lest the server send it again.
        case refusal(XMLStreamError)
    }

    enum State {
        /// Stanzas are taken. To `finishing`, and to `ended` on a stream error, bad XML, silence, or a lost transport.
        case open
        /// Reading has stopped and messages in flight are being settled. To `closing` (ours), to `ended` (the others;
        /// ours on a stream error or bad XML), and from ours to peers.
        case finishing(Cause)
        /// Our `</stream:stream>` is sent, the peer's is awaited; anything else is dropped. To `ended`.
        case closing
        /// Nothing has an effect any more, except that messages still in flight are counted until they are settled.
        case ended
    }

    var codec: UpstreamCodec
    let idPrefix: String
    /// The time from the last proof that the peer receives to the next ping.
    let keepaliveInterval: Duration
    /// Whether messages are taken, or ignored.
    private let takesMessages: Bool
    let messageLimit: Int?
    var state = State.open
    var window: InFlightWindow
    var keepalive: Keepalive
    var management: StreamManagement
    var presence: Presence
    var timer = TimerSlot()
    var pinger: Pinger
    /// The page of our account's archive that is asked for; nil on a stream that receives messages.
    var page: ArchivePage?
    /// The request about our account's offline store that is under way; nil likewise.
    var offline: OfflineQuery?
    var pages: UInt64 = 0
    /// Whether reading pauses because the peer does not accept our writes.
    package internal(set) var isBlocked = false
    private var queries: QueryResponder
    let boundAt: UInt64
    /// Our own address, from which a server may answer a ping.
    let address: JID
    let domain: JID?
    /// Whether the peer has announced that it will close the connection.
    package private(set) var isDraining = false
    /// Whether a stanza was taken: after it, an end by the peer's bad XML is no failure to connect.
    var hasTakenStanza = false
    /// Whether the connection was lost and the server holds the session for resumption.
    package internal(set) var isSuspended = false
    /// Whether the server hears us: it does on a new stream, and on a resumed one once it has answered.
    ///
    /// Prosody 0.12 resumes into the old session's parser: if the connection was lost inside a stanza of ours, all that
    /// we send afterwards belongs to that.
    package internal(set) var isHeard: Bool
    /// Whether another resource of the account has been seen.
    private var hasRival = false

    /// A session on a stream that is bound at this instant; the prefix of our IQs' ids is random for each connection.
    package init(
        _ settings: StreamSettings,
        takesMessages: Bool = true,
        idPrefix: String,
        stream: BoundStream,
        now: UInt64
    ) {
        self.takesMessages = takesMessages
        messageLimit = settings.messageLimit
        self.idPrefix = idPrefix
        pinger = Pinger(to: settings.domain, idPrefix: idPrefix)
        codec = UpstreamCodec(settings)
        codec.bound(to: stream.address, stream.limits)
        boundAt = now
        address = stream.address
        domain = JID(settings.domain)
        window = InFlightWindow(window: settings.usedWindow)
        management = stream.resumed ?? StreamManagement(stream.management)
        let offer = settings.isPresent ? stream.management : .unused
        presence = Presence(offer, priority: settings.priority, queue: settings.serverQueue)
        queries = QueryResponder(version: settings.version, as: settings.component, now: now)
        // The greeting's presence.
        if stream.resumed == nil, presence.isUsed { management.wrote() }
        // XEP-0478 section 3: a stream without traffic for that long is closed. Pings are traffic.
        let longest = stream.limits.idle.map { max($0 / 2, .seconds(1)) } ?? settings.keepaliveInterval
        keepaliveInterval = min(settings.keepaliveInterval, longest)
        isHeard = stream.resumed == nil
        keepalive = Keepalive(
            interval: keepaliveInterval,
            timeout: settings.keepaliveTimeout,
            now: now,
            isProven: isHeard
        )
        if presence.isUsed, isHeard { keepalive.storeRequested(isComing: true) }
    }

    var settings: StreamSettings { codec.settings }

    /// Whether stanzas, above all acks, may still be written: until our `</stream:stream>` is sent.
    package var canSend: Bool {
        switch state {
        case .open, .finishing: true
        case .closing, .ended: false
        }
    }

    /// Whether to read from the peer: not while the window is full, nor while messages are settled before the end.
    package var wantsInput: Bool {
        switch state {
        case .open: !window.isPaused && !isBlocked
        // The peer's closing tag is still to come.
        case .closing: true
        case .finishing, .ended: false
        }
    }

    package var acks: AckEncoder { codec.acks }

    package var isSettled: Bool { window.isEmpty }

    /// Whether all that came before the answer of this number is committed: what devices go on writing to our full address,
    /// which they know from our acks, must not hold it up.
    func isSettled(before number: UInt32?) -> Bool {
        isSettled || number.map { management.areLater(than: $0, window.messages) } ?? false
    }

    package func boundTime(now: UInt64) -> Duration {
        .nanoseconds(Int64(clamping: now > boundAt ? now - boundAt : 0))
    }

    // MARK: Stanzas

    package enum StanzaAction: Sendable {
        /// Hand it to the pipeline, count its kind, and set the timer, if any.
        case deliver(IncomingMessage, SessionTimer?)
        /// The same for the messages of one stanza, in their order.
        case deliverAll([IncomingMessage], SessionTimer?)
        /// Count its kind; nothing else.
        case note(DecodedStanza)
        /// Count its kind. With a timer it is the first announcement: open a replacement connection at once, and set
        /// the timer beside the session's own. This connection goes on receiving and acking.
        case drain(DecodedStanza, SessionTimer?)
        /// Count it as `other` and send these bytes.
        case reply([UInt8])
        /// Send these bytes, if any; it is no stanza and not counted.
        case answer([UInt8])
        /// Stream management is decided.
        case managed(StreamManagement.Outcome)
        /// Count it as `other`: another resource of our account is online and gets copies of messages. Returned once.
        case rival
        /// The peer ends the stream: send these bytes and close the transport.
        case end([UInt8], SessionOutcome)
        /// Nothing: stanzas are no longer taken.
        case none
    }

    /// Handles a stanza; see ``UpstreamCodec/decode(_:receivedAt:parsedAt:following:)``.
    package mutating func stanza(
        _ stanza: Stanza,
        receivedAt: Int64,
        parsedAt: UInt64,
        following: Int = 0
    ) -> StanzaAction {
        guard stanza.elementCount > 0 else { return .none }
        switch state {
        case .open: break
        case .finishing, .closing: return late(stanza)
        case .ended: return .none
        }
        if mayAnswerWait, stanza.equals(stanza.elements[0].namespace, XMLNamespace.client) {
            keepalive.heard(now: parsedAt)
        }
        // First: a result is itself a stanza of our account, which some payloads take for a message.
        if page != nil,
            let action = paged(stanza, receivedAt: receivedAt, parsedAt: parsedAt, following: following)
        {
            return action
        }
        if offline != nil, let action = answered(stanza) { return action }
        // One that is too long for a stream with presence stays stored, and is judged there.
        if let messageLimit, stanza.element(0, is: "message", in: XMLNamespace.client), !stanza.fits(in: messageLimit) {
            return note(.other)
        }
        let isStored = offline?.note(stanza) ?? false
        switch codec.decode(stanza, receivedAt: receivedAt, parsedAt: parsedAt, following: following) {
        case .message(let message): return deliver(message, now: parsedAt, isStored: isStored)
        case .messages(let messages): return deliver(messages, now: parsedAt, isStored: isStored)
        case .other: return other(stanza, now: parsedAt)
        case let kind: return note(kind)
        }
    }

    /// Delivers a message; one that stays stored until we remove it is answered for at once: when the connection is lost,
    /// ejabberd returns to its sender what it has no answer for, and keeps it.
    mutating func deliver(_ message: consuming IncomingMessage, now: UInt64, isStored: Bool = false) -> StanzaAction {
        hasTakenStanza = true
        guard takesMessages else { return .none }
        presence.took(now: now)
        let timer = window.took(bytes: message.bytes.count) ? readingPaused(true, now: now).timer : nil
        if isStored {
            management.noted()
        } else if management.isActive {
            management.number(&message)
        }
        return .deliver(message, timer)
    }

    mutating func deliver(_ delivered: [IncomingMessage], now: UInt64, isStored: Bool = false) -> StanzaAction {
        hasTakenStanza = true
        guard takesMessages else { return .none }
        presence.took(now: now)
        var messages = delivered
        var timer: SessionTimer?
        for message in messages where window.took(bytes: message.bytes.count) {
            timer = readingPaused(true, now: now).timer
        }
        if isStored {
            management.noted()
        } else if management.isActive {
            management.number(&messages)
        }
        return .deliverAll(messages, timer)
    }

    mutating func note(_ kind: DecodedStanza) -> StanzaAction {
        hasTakenStanza = true
        management.noted()
        // Only a CCS is the server of its stream. On a standard server it is another account, or a device, which
        // can't close the connection and must not make us open more.
        guard kind.announcesDraining, codec.settings.dialect == .ccs else { return .note(kind) }
        defer { isDraining = true }
        let timer = SessionTimer(id: Session.drainingTimerID, delay: Session.drainingLimit)
        return .drain(kind, isDraining ? nil : timer)
    }

    /// Handles an element after stanzas are no longer taken: a stream error, or a request that can still be answered.
    private mutating func late(_ stanza: Stanza) -> StanzaAction {
        if let error = StreamError(stanza) { return end(error) }
        guard canSend else { return .none }
        switch management.receive(stanza) {
        case .send(let bytes): return .answer(bytes)
        case .refuse(let report): return miscounted(report)
        case .none, .ignore, .decided: return .none
        }
    }

    private mutating func other(_ stanza: Stanza, now: UInt64) -> StanzaAction {
        if let error = StreamError(stanza) { return end(error) }
        if isPong(stanza) {
            keepalive.answered(now: now)
            isHeard = true
        }
        if StreamManagement.isAnswer(stanza) { isHeard = true }
        if stanza.equals(stanza.elements[0].namespace, XMLNamespace.client) { management.noted() }
        let before = management.confirmed
        switch management.receive(stanza) {
        case .none: break
        case .ignore:
            confirmed(since: before, now: now)
            return .note(.other)
        case .send(let bytes): return .answer(bytes)
        case .decided(let outcome): return .managed(outcome)
        case .refuse(let report): return miscounted(report)
        }
        if !hasRival, isRival(stanza) {
            hasRival = true
            return .rival
        }
        guard let reply = queries.reply(to: stanza, from: asker(of: stanza), now: now) else { return .note(.other) }
        management.wrote()
        return .reply(reply)
    }

    /// The kind of a query's sender (RFC 6120 section 8.1.2.1: without an address the server, for our account).
    private func asker(of stanza: Stanza) -> QueryResponder.Asker {
        guard let from = stanza.attribute("from", of: 0) else { return .server }
        if let sender = JID(stanza.string(from)), sender == domain || sender.bare == address.bare { return .server }
        return codec.isTrusted(from, in: stanza) ? .trusted : .stranger
    }

    /// Counts acks that were written or are kept; returns the last one's number if they must be kept till confirmed.
    package mutating func wrote(_ count: Int) -> UInt32? {
        management.wrote(count)
        return management.grant == nil ? nil : management.sent
    }

    /// How many of our stanzas the server has, modulo 2^32.
    package var confirmed: UInt32 { management.confirmed }

    /// Gives up resumption, because there are too many acks to keep.
    package mutating func forgoResumption() {
        management.forgoResumption()
        isSuspended = false
    }

    /// The session to resume, once everything received has settled; nil if it is over.
    package var suspended: SuspendedSession? {
        isSuspended && management.canResume ? SuspendedSession(address: address, management: management) : nil
    }

    /// Ends the stream because the server's count of our stanzas is impossible.
    private mutating func miscounted(_ report: [UInt8]) -> StanzaAction {
        let bytes = management.last() + report
        state = .ended
        return .end(bytes, .miscounted)
    }

    /// Whether this is the presence of another resource of our account (RFC 6121 section 4.2.2).
    private func isRival(_ stanza: Stanza) -> Bool {
        guard stanza.element(0, is: "presence", in: XMLNamespace.client), stanza.attribute("type", of: 0) == nil,
            let from = stanza.attribute("from", of: 0), let sender = JID(stanza.string(from))
        else { return false }
        return sender != address && sender.resource != nil && sender.bare == address.bare
    }

    private mutating func end(_ error: StreamError) -> StanzaAction {
        // RFC 6120 section 4.9.1.1: the receiver of a stream error closes its own stream too.
        let bytes = canSend ? goodbye() : []
        state = .ended
        return .end(bytes, .streamError(error))
    }

    /// Counts a skipped stanza, well-formed but too deep or too wide to be read, so that a server that counts stanzas
    /// does not send it again; returns whether to count it as `other`.
    package mutating func skipped(_ name: StanzaName, id: [UInt8]? = nil) -> Bool {
        guard case .open = state else { return false }
        hasTakenStanza = true
        if name.isStanza { management.noted() }
        offline?.skipped(name, id: id)
        return true
    }
}
