import Logging
import NIOCore
import NIOPosix
import TLSWire
import Telemetry
import UpstreamKit
import XMLWire
import XMPP
import XMPPSession

/// What a connection to an endpoint tells.
enum EndpointEvent: Sendable {
    /// Stanzas may be sent over this channel.
    case bound(any Channel)
    /// These messages were acked.
    case acks([AckWindow.Key])
    /// The connection is over.
    case ended(Ending)

    /// How a connection ended.
    struct Ending: Sendable {
        /// Why.
        var message: String
        /// For the delay before the next one.
        var ending: ReconnectPolicy.Ending
        /// Whether another one would end the same way.
        var isFinal = false
    }
}

/// One connection to an endpoint: negotiates and runs the stream, and tells of the acks.
///
/// Confined to the connection's event loop.
final class EndpointHandler: ChannelInboundHandler {
    typealias InboundIn = XMLStreamEvent
    typealias OutboundOut = ByteBuffer

    private let settings: SenderSettings
    private let events: AsyncStream<EndpointEvent>.Continuation
    private let idPrefix = String(UInt64.random(in: .min ... .max), radix: 36)
    private let stream: XMLStreamHandler
    private let opening: StreamOpening
    private var session: Session?
    private var reader = ServerAckReader()
    private var acks: [AckWindow.Key] = []
    private var context: ChannelHandlerContext?
    private var timer: Scheduled<Void>?
    private var boundAt: NIODeadline?
    private var hasEnded = false

    private init(_ settings: SenderSettings, secret: [UInt8], events: AsyncStream<EndpointEvent>.Continuation) {
        self.settings = settings
        self.events = events
        stream = XMLStreamHandler(limits: settings.limits)
        // The dialect: without presence a standard server sends us nothing that is meant for the worker.
        opening = StreamOpening(settings, dialect: .ccs, secret: secret, idPrefix: idPrefix, stream: stream)
    }

    /// Opens a connection; the events end with ``EndpointEvent/ended(_:)``.
    static func connect(_ settings: SenderSettings, on group: any EventLoopGroup) -> AsyncStream<EndpointEvent> {
        let (stream, events) = AsyncStream<EndpointEvent>.makeStream()
        @Sendable func end(_ message: String, isFinal: Bool = false) {
            events.yield(.ended(.init(message: message, ending: .failed, isFinal: isFinal)))
            events.finish()
        }
        let secret: [UInt8]
        do {
            secret = try settings.secret()
        } catch {
            end("the secret can't be read: \(error)", isFinal: true)
            return stream
        }
        StreamOpening.connect(settings, on: group) {
            let handler = EndpointHandler(settings, secret: secret, events: events)
            return (handler.stream, handler)
        }
        .whenFailure { error in
            end("cannot connect to \(settings.host) port \(settings.port): \(ConnectFailure.reason(error))")
        }
        return stream
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: settings.negotiationTimeout) {
            if self.session == nil, let error = self.opening.timedOut() { self.fail(error) }
        }
        if context.channel.isActive { proceed(opening.connected()) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) {
        proceed(opening.connected())
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .established? = event as? TLSEvent { proceed(opening.encrypted()) }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasEnded else { return }
        let event = unwrapInboundIn(data)
        if session == nil { proceed(opening.read(event, context)) } else { receive(event) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if !acks.isEmpty {
            events.yield(.acks(acks))
            acks.removeAll(keepingCapacity: true)
        }
        context.flush()
    }

    func channelInactive(context: ChannelHandlerContext) {
        if session == nil, let error = opening.transportClosed() { fail(error) }
        session?.transportClosed()
        end("the connection was lost")
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case let error as XMLStreamError:
            write(session?.violation(StreamErrorCondition(rawValue: "\(error.condition)") ?? .notWellFormed) ?? [])
            end("the peer broke the stream: \(error.message)")
        case let error as TLSError: end(error.message, isFinal: session == nil)
        default: end("the connection failed: \(error)")
        }
        context.close(promise: nil)
    }

    // MARK: The stream

    private func proceed(_ step: StreamOpening.Step) {
        guard session == nil, !hasEnded else { return }
        switch step {
        case .none: break
        case .send(let bytes): write(bytes)
        case .derive(let derivation): derive(derivation)
        case .bound(let bound): becomeBound(bound)
        case .failed(let error): fail(error)
        case .broken(let error):
            end("TLS can't begin: \(error)")
            context?.close(promise: nil)
        }
        context?.flush()
    }

    private func derive(_ derivation: KeyDerivation) {
        guard let context else { return }
        settings.keys.key(for: derivation, on: context.eventLoop).assumeIsolated().whenComplete { result in
            guard let context = self.context else { return }
            switch result {
            case .success(let key): self.proceed(self.opening.derived(key, context))
            case .failure(let error): self.end("the key of SCRAM can't be computed: \(error)")
            }
        }
    }

    private func becomeBound(_ bound: BoundStream) {
        guard let context else { return }
        timer?.cancel()
        boundAt = .now()
        let configuration = CodecConfiguration(
            sender: 0,
            senderID: settings.senderID,
            domain: settings.domain,
            // The worker answers from an address of the account.
            trustedFrom: settings.trustedFrom + ["\(settings.senderID)@\(settings.domain)"]
        )
        session = Session(
            configuration: SessionConfiguration(
                domain: settings.domain,
                idPrefix: idPrefix,
                keepaliveInterval: settings.keepaliveInterval,
                keepaliveTimeout: settings.keepaliveTimeout
            ),
            codec: UpstreamCodec(configuration: configuration),
            stream: bound,
            now: ArrivalClock.monotonicNanoseconds()
        )
        if let timer = session?.start() { setTimer(timer) }
        write(bound.greeting)
        events.yield(.bound(context.channel))
    }

    private func receive(_ event: XMLStreamEvent) {
        switch event {
        case .opened: break
        case .skipped(let stanza): _ = session?.skipped(stanza.name)
        case .closed:
            switch session?.peerClosed() {
            case .finish?, .close?:
                if case .close(let bytes)? = session?.settled() { write(bytes) }
                end("the server closed the stream")
                context?.close(promise: nil)
            case .none?, nil: break
            }
        case .stanza(let stanza):
            switch session?.stanza(
                stanza,
                receivedAt: 0,
                parsedAt: ArrivalClock.monotonicNanoseconds()
            ) {
            case .note(.ack)?:
                if let ack = reader.read(stanza) { acks.append(.init(id: ack.messageID, token: ack.to)) }
            case .note(.error(let error))?:
                end("the server sent a message back (\(error.condition.rawValue)): no worker is there to take it")
                context?.close(promise: nil)
            case .reply(let bytes)?, .answer(let bytes)?: write(bytes)
            case .end(let error, let bytes)?:
                write(bytes)
                end("the server ended the stream: \(error.summary)", error: error.condition)
                context?.close(promise: nil)
            // A message is not for us: unacked, it goes to the worker once we are gone.
            case .deliver?, .note?, .drain?, .managed?, .none?, nil: break
            }
        }
    }

    private func setTimer(_ next: SessionTimer) {
        timer?.cancel()
        timer = context?.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(next.delay)) {
            switch self.session?.timerFired(next.id, now: ArrivalClock.monotonicNanoseconds()) {
            case .wait(let timer)?: self.setTimer(timer)
            case .ping(let bytes, let timer)?, .withdraw(let bytes, let timer)?:
                self.write(bytes)
                self.setTimer(timer)
            case .dead?:
                self.end("the server answered no ping: the connection is dead")
                self.context?.close(promise: nil)
            case .close(let bytes)?, .unmanaged(let bytes)?:
                self.write(bytes)
                self.end("the stream was closed")
                self.context?.close(promise: nil)
            case .none?, nil: break
            }
            self.context?.flush()
        }
    }

    /// Ends the stream in order, as far as that goes without waiting for long.
    static func finish(_ channel: any Channel) {
        channel.eventLoop.execute {
            guard let handler = try? channel.pipeline.syncOperations.handler(type: EndpointHandler.self) else { return }
            if handler.session?.close() == .stopReading, case .send(let bytes, let timer)? = handler.session?.settled()
            {
                handler.write(bytes)
                handler.setTimer(timer)
                handler.context?.flush()
            } else {
                handler.context?.close(promise: nil)
            }
        }
    }

    // MARK: Endings

    private func write(_ bytes: [UInt8]) {
        guard !bytes.isEmpty, let context else { return }
        context.write(wrapOutboundOut(context.channel.allocator.buffer(bytes: bytes)), promise: nil)
    }

    private func fail(_ error: NegotiationError) {
        let isFinal: Bool =
            switch error.code {
            case .tlsNotOffered, .tlsRefused, .tlsInjection, .notEncrypted, .noMechanism, .authenticationRefused,
                .authenticationProtocol:
                true
            default: false
            }
        end(error.message, isFinal: isFinal)
        context?.close(promise: nil)
    }

    private func end(_ message: String, error: StreamErrorCondition? = nil, isFinal: Bool = false) {
        guard !hasEnded else { return }
        hasEnded = true
        timer?.cancel()
        context?.flush()
        if !acks.isEmpty { events.yield(.acks(acks)) }
        let ending: ReconnectPolicy.Ending =
            boundAt.map { .session(bound: .nanoseconds((NIODeadline.now() - $0).nanoseconds), error: error) } ?? .failed
        events.yield(.ended(.init(message: message, ending: ending, isFinal: isFinal)))
        events.finish()
    }
}
