import Ingest
import Logging
import NIOCore
import Telemetry
import Vocabulary
import XMLWire
import XMPP

/// Receives messages over a stream, on its event loop: hands them to the ingest queue, counts and logs.
final class MessageReceiver: PageReader {
    static var takesMessages: Bool { true }

    let metrics: Metrics
    private let sharedSettings: SharedSettings
    private let ingest: IngestQueue
    private let clock: ArrivalClock
    private let logger: Logger
    private let turn: EventLoopPromise<ConnectionTurn>
    private let end: EventLoopPromise<SessionEnd>
    /// The connection, which holds this; released at the end, after which nothing is handed over.
    private var sink: (any AckSink)?
    /// The state that the gauges count this connection in; nil before its start and after its end.
    private var gauge: ConnectionState?
    /// The place among the opening connections; nil once it is given back.
    private var place: OpeningGate.Place?
    private var host: String
    /// Its place among the configured senders.
    private let sender: Int
    /// Called once, when nothing is in flight any more.
    var allSettled: (@Sendable () -> Void)?
    /// When the connection ended, in nanoseconds of the monotonic clock.
    private(set) var lostAt: UInt64 = 0
    /// The acks that the server may lack, if the stream can be resumed.
    var unconfirmed = UnconfirmedAcks()
    /// The page of what the server has stored that is waited for, and the stream that it comes over.
    var page: AwaitedPage?
    private weak var archiveStream: StreamHandler<MessageReceiver>?
    /// The stream to resume over this connection, until it is resumed or given up.
    var suspendedStream: SuspendedStream?

    init(
        settings shared: SharedSettings,
        environment: Connection.Environment,
        logger: Logger,
        sink: any AckSink,
        suspended: SuspendedStream? = nil,
        place: OpeningGate.Place? = nil,
        turn: EventLoopPromise<ConnectionTurn>,
        end: EventLoopPromise<SessionEnd>
    ) {
        sharedSettings = shared
        let settings = shared.value
        host = settings.host
        sender = Int(settings.stream.index)
        self.logger = logger
        self.sink = sink
        self.turn = turn
        self.end = end
        suspendedStream = suspended
        self.place = place
        metrics = environment.metrics
        ingest = environment.ingest
        clock = environment.clock
    }

    private var settings: SenderSettings { sharedSettings.value }

    func bound(_ stream: BoundStream, on channel: any Channel) -> Bool {
        count(as: .bound)
        let isResumed = stream.resumed != nil
        let words: StaticString = isResumed ? "the session goes on" : "the stream is bound"
        logger.event(.info, .streamBound, words, [.host: .string(host)])
        // The server has given the session up: its messages are redelivered.
        if !isResumed { suspendedStream.take()?.abandon(metrics) }
        if stream.management == .missing { warnUnmanaged("not offered") }
        if settings.stream.purpose == .messages { settings.archiveTicks?.tick(in: ArchiveService.settling) }
        return true
    }

    func greeted(by handler: StreamHandler<MessageReceiver>) {
        guard settings.stream.purpose != .messages else { return }
        archiveStream = handler
        handler.askForPage()
    }

    func readEnded() { archiveStream?.finishPage() }

    func received(_ messages: inout [IncomingMessage]) {
        guard let sink else { return messages.removeAll() }
        count(messages)
        ingest.submit(messages, from: sink)
        // Small storage is kept for the next read; a large one is not, since connections are mostly idle.
        messages.removeAll(keepingCapacity: messages.capacity <= 32)
    }

    private func count(_ messages: [IncomingMessage]) {
        var kinds = (upstream: 0, receipt: 0, malformed: 0)
        var archived = 0
        // In place: a copy of a message would retain its bytes.
        let messages = messages.span
        for index in messages.indices {
            switch messages[index].kind {
            case .upstream: kinds.upstream += 1
            case .receipt: kinds.receipt += 1
            case .malformed: kinds.malformed += 1
            }
            if messages[index].isArchived { archived += 1 }
        }
        if archived > 0 { metrics.stanzas[.archive].increment(by: archived) }
        metrics.messages.received(upstream: kinds.upstream, receipt: kinds.receipt, malformed: kinds.malformed)
        metrics.received(sender: sender).increment(by: messages.count)
    }

    func noted(_ kind: DecodedStanza, in stanza: Stanza) -> String? {
        func ignored(_ kind: StanzaLabel, _ words: StaticString, _ reason: String?) {
            metrics.stanzas[kind].increment()
            logger.event(.debug, .stanzaIgnored, words, reason.map { [.reason: .string($0)] as LogFields } ?? [:])
        }
        switch kind {
        case .message, .messages: break
        case .ack: metrics.stanzas[.ack].increment()
        case .nack(let code): ignored(.nack, "the peer sent a nack", code.rawValue)
        case .control(let type): ignored(.control, "the peer sent a control message", type.rawValue)
        case .error(let error): ignored(.error, "the peer answered with a stanza error", error.condition.rawValue)
        case .untrusted: ignored(.untrusted, "ignored a payload whose sender is not in trusted_from", nil)
        case .archived: metrics.stanzas[.archive].increment()
        case .other: metrics.stanzas[.other].increment()
        }
        return nil
    }

    func noticed(_ notice: StreamNotice) {
        switch notice {
        case .connecting: count(as: .connecting)
        case .reached(let server): log(server)
        case .encrypted(let version, let cipher, let end):
            if let end { metrics.certificates.note(.server, of: settings.stream.senderID, remaining: end) }
            let fields: LogFields = [.version: .string(version), .cipher: .string(cipher)]
            logger.event(.debug, .connecting, "TLS is established", fields)
        case .signedIn(let signIn):
            let fields: LogFields = [
                .mechanism: .string(signIn.choice.name), .offered: .string(signIn.offeredMechanisms),
                .binding: .string(signIn.choice.binding?.rawValue ?? "none"),
            ]
            logger.event(.info, .streamAuthenticated, "signed in", fields)
        case .pinned:
            logger.event(.notice, .streamPinned, "signed in with channel binding: nothing less is accepted from now on")
        case .skipped(let reason):
            metrics.stanzas[.other].increment()
            let words: StaticString = "skipped a stanza that is too long, too deep, too wide, or has bad namespaces"
            logger.event(.debug, .stanzaIgnored, words, [.reason: .string(reason.rawValue)])
        case .counted: metrics.stanzas[.other].increment()
        case .managed(.enabled): break
        case .managed(.missing): warnUnmanaged("not offered")
        case .managed(.refused(let condition)): warnUnmanaged(condition.rawValue)
        case .rival:
            let words: StaticString =
                "another client has signed in with this account: it gets copies of messages, or takes them"
            logger.event(.warning, .streamRival, words)
        case .draining(let bound):
            count(as: .draining)
            logger.event(.info, .streamDraining, "the peer is draining the stream; opening a replacement")
            turn.succeed(.draining(bound: bound))
        case .drainExpired:
            logger.event(.notice, .streamDraining, "the peer has not closed the stream that it is draining; closing it")
        case .withdrawn:
            let words: StaticString = "reading has been paused for long; the server stores messages until it resumes"
            logger.event(.notice, .streamWithdrawn, words)
        }
    }

    /// Warns of a standard server without stream management: once, since all connections to it are the same.
    private func warnUnmanaged(_ reason: String) {
        guard settings.managementWarning.isFirst() else { return }
        logger.event(
            .warning,
            .streamUnmanaged,
            "no stream management (XEP-0198) on this server: messages sent to a dead connection are lost",
            [.reason: .string(reason)]
        )
    }

    func ended(_ end: SessionEnd) {
        count(as: nil)
        sink = nil
        lostAt = clock.monotonic()
        // Gone, or an answer that can't be right: the next connection binds a new session.
        if let code = end.negotiation?.code, [.badStream, .sessionGone].contains(code) {
            suspendedStream.take()?.abandon(metrics)
        }
        log(end)
        page.take()?.abandon()
        turn.succeed(.ended(end))
        self.end.succeed(end)
    }

    private func log(_ server: ReachedServer) {
        host = server.target.host
        var fields: LogFields = [
            .host: .string(server.target.host), .port: .int(server.target.port),
            .state: .string(server.target.security.mode.rawValue),
        ]
        if let address = server.address?.ipAddress { fields[.address] = .string(address) }
        if case .service(let name) = server.target.origin { fields[.service] = .string(name) }
        logger.event(.info, .streamConnected, "connected to the server", fields)
    }

    private func log(_ end: SessionEnd) {
        let fields: LogFields = [.reason: .string(end.reason.rawValue), .error: .string(end.message)]
        let (level, event, words): (Logger.Level, EventName, StaticString) =
            switch end.reason {
            case .streamClosed, .draining: (.info, .streamClosed, "the stream was closed")
            case .connectFailed: (.warning, .connectFailed, "cannot connect")
            case .tlsFailed: (.error, .tlsRefused, "TLS failed; nothing was sent")
            case .authenticationFailed: (.error, .saslRefused, "authentication failed")
            case .negotiationFailed: (.warning, .negotiationFailed, "cannot bind the stream")
            case .streamError, .policyViolation: (.warning, .streamError, "the stream ended with an error")
            case .pingTimeout: (.warning, .pingTimeout, "the peer does not respond")
            case .connectionLost: (.warning, .streamClosed, "the connection was lost")
            }
        logger.event(level, event, words, fields)
    }

    private func count(as state: ConnectionState?) {
        // Only results come over it: it must not count as one that receives.
        guard settings.stream.purpose != .archive else { return }
        if let gauge { metrics.connections(sender: sender, state: gauge).add(-1) }
        if let state { metrics.connections(sender: sender, state: state).add(1) }
        gauge = state
        if state != .connecting { place.take()?.giveBack() }
    }

    // MARK: Resumption of a lost connection's stream (docs/adr/0005)

    package var suspended: SuspendedSession? { suspendedStream?.session }

    /// Sends the acks that the server lacks, including those of messages committed meanwhile.
    func resumed(by handler: StreamHandler<MessageReceiver>) {
        guard let confirmed = handler.bound?.session.confirmed, var acks = suspendedStream.take()?.acks else { return }
        metrics.acks[.sent].increment(by: acks.confirm(confirmed))
        for piece in acks.pieces {
            handler.sendAcks(piece.bytes, count: piece.count, isCounted: piece.isCounted)
        }
    }

    /// Gives up the unsent acks, since the stream is not resumed; only when no write is under way.
    func abandonAcks() {
        metrics.acks[.connectionGone].increment(by: unconfirmed.uncounted)
        unconfirmed = UnconfirmedAcks()
    }
}
