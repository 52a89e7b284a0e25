import Ingest
import Logging
import NIOCore
import Telemetry
import Vocabulary
import XMLWire
import XMPP

/// Receives messages over a stream, hands them to the ingest queue, and counts and logs the connection's events.
///
/// Confined to the connection's event loop.
final class MessageReceiver: StreamDelegate {
    static var takesMessages: Bool { true }

    let metrics: Metrics
    private let sharedSettings: SharedSettings
    private let ingest: IngestQueue
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
    /// Called once, when nothing is in flight any more.
    var allSettled: (@Sendable () -> Void)?
    /// When the connection ended, in nanoseconds of the monotonic clock.
    private(set) var lostAt: UInt64 = 0
    /// The acks that the server may lack, if the stream can be resumed.
    var unconfirmed = UnconfirmedAcks()
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
        self.logger = logger
        self.sink = sink
        self.turn = turn
        self.end = end
        suspendedStream = suspended
        self.place = place
        metrics = environment.metrics
        ingest = environment.ingest
    }

    private var settings: SenderSettings { sharedSettings.value }

    func bound(_ stream: BoundStream, on channel: any Channel) -> Bool {
        count(as: .bound)
        let isResumed = stream.resumed != nil
        let words: StaticString = isResumed ? "the session goes on" : "the stream is bound"
        logger.event(.info, .streamBound, words, [.host: .string(host)])
        if !isResumed, let lost = suspendedStream {
            // The server has given the session up: its messages are redelivered.
            suspendedStream = nil
            lost.abandon(metrics)
        }
        if stream.management == .missing { warnUnmanaged("not offered") }
        return true
    }

    func received(_ messages: inout [IncomingMessage]) {
        guard let sink else { return messages.removeAll() }
        count(messages)
        ingest.submit(messages, from: sink)
        // Small storage is kept for the next read; a large one is not, since connections are mostly idle.
        messages.removeAll(keepingCapacity: messages.capacity <= 32)
    }

    private func count(_ messages: [IncomingMessage]) {
        var kinds = (upstream: 0, receipt: 0, malformed: 0)
        // In place: a copy of a message would retain its bytes.
        let messages = messages.span
        for index in messages.indices {
            switch messages[index].kind {
            case .upstream: kinds.upstream += 1
            case .receipt: kinds.receipt += 1
            case .malformed: kinds.malformed += 1
            }
        }
        metrics.messages.received(upstream: kinds.upstream, receipt: kinds.receipt, malformed: kinds.malformed)
    }

    func noted(_ kind: DecodedStanza, in stanza: Stanza) -> String? {
        let stanzas = metrics.stanzas
        switch kind {
        case .message: break
        case .ack: stanzas[.ack].increment()
        case .nack(let code):
            stanzas[.nack].increment()
            logger.event(.debug, .stanzaIgnored, "the peer sent a nack", [.reason: .string(code.rawValue)])
        case .control(let type):
            stanzas[.control].increment()
            logger.event(.debug, .stanzaIgnored, "the peer sent a control message", [.reason: .string(type.rawValue)])
        case .error(let error):
            stanzas[.error].increment()
            let reason = LogValue.string(error.condition.rawValue)
            logger.event(.debug, .stanzaIgnored, "the peer answered with a stanza error", [.reason: reason])
        case .untrusted:
            stanzas[.untrusted].increment()
            logger.event(.debug, .stanzaIgnored, "ignored a payload whose sender is not in trusted_from")
        case .other: stanzas[.other].increment()
        }
        return nil
    }

    func noticed(_ notice: StreamNotice) {
        switch notice {
        case .connecting: count(as: .connecting)
        case .reached(let server): log(server)
        case .encrypted(let version, let cipher, let end):
            if let end { metrics.certificates.note(.server, of: settings.senderID, remaining: end) }
            let fields: LogFields = [.version: .string(version), .cipher: .string(cipher)]
            logger.event(.debug, .connecting, "TLS is established", fields)
        case .signedIn(let signIn):
            logger.event(
                .info,
                .streamAuthenticated,
                "signed in",
                [
                    .mechanism: .string(signIn.choice.name),
                    .binding: .string(signIn.choice.binding?.rawValue ?? "none"),
                    .offered: .string(signIn.offeredMechanisms),
                ]
            )
        case .skipped(let reason):
            metrics.stanzas[.other].increment()
            logger.event(
                .debug,
                .stanzaIgnored,
                "skipped a stanza that is too deep, too wide, or has bad namespaces",
                [.reason: .string(reason.shortDescription)]
            )
        case .refused, .answered: metrics.stanzas[.other].increment()
        case .managed(.enabled): break
        case .managed(.missing): warnUnmanaged("not offered")
        case .managed(.refused(let condition)): warnUnmanaged(condition.rawValue)
        case .rival:
            logger.event(
                .warning,
                .streamRival,
                "another client has signed in with this account: it gets copies of messages, or takes them"
            )
        case .draining(let bound):
            count(as: .draining)
            logger.event(.info, .streamDraining, "the peer is draining the stream; opening a replacement")
            turn.succeed(.draining(bound: bound))
        case .drainExpired:
            logger.event(.notice, .streamDraining, "the peer has not closed the stream that it is draining; closing it")
        case .withdrawn:
            logger.event(
                .notice,
                .streamWithdrawn,
                "reading has been paused for long; the server stores messages until it resumes"
            )
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
        lostAt = MonotonicTime.now.nanoseconds
        // An answer that can't be right: the next connection binds a new session.
        if end.negotiation?.code == .badStream, let lost = suspendedStream {
            suspendedStream = nil
            lost.abandon(metrics)
        }
        log(end)
        turn.succeed(.ended(end))
        self.end.succeed(end)
    }

    private func log(_ server: ReachedServer) {
        host = server.target.host
        var fields: LogFields = [
            .host: .string(server.target.host), .port: .int(server.target.port),
            .state: .string(server.target.transport),
        ]
        if let address = server.address?.ipAddress { fields[.address] = .string(address) }
        if case .service(let name) = server.target.origin { fields[.service] = .string(name) }
        logger.event(.info, .streamConnected, "connected to the server", fields)
    }

    private func log(_ end: SessionEnd) {
        let fields: LogFields = [.reason: .string(end.reason.rawValue), .error: .string(end.message)]
        switch end.reason {
        case .streamClosed, .draining:
            logger.event(.info, .streamClosed, "the stream was closed", fields)
        case .connectFailed:
            logger.event(.warning, .connectFailed, "cannot connect", fields)
        case .tlsFailed:
            logger.event(.error, .tlsRefused, "TLS failed; nothing was sent", fields)
        case .authenticationFailed:
            logger.event(.error, .saslRefused, "authentication failed", fields)
        case .negotiationFailed:
            logger.event(.warning, .negotiationFailed, "cannot bind the stream", fields)
        case .streamError, .policyViolation:
            logger.event(.warning, .streamError, "the stream ended with an error", fields)
        case .pingTimeout:
            logger.event(.warning, .pingTimeout, "the peer does not respond", fields)
        case .connectionLost:
            logger.event(.warning, .streamClosed, "the connection was lost", fields)
        }
    }

    /// Moves the connection to another gauge.
    private func count(as state: ConnectionState?) {
        if let gauge { metrics.connections(sender: settings.index, state: gauge).add(-1) }
        if let state { metrics.connections(sender: settings.index, state: state).add(1) }
        gauge = state
        if state != .connecting { place.take()?.giveBack() }
    }
}
