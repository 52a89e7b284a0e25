import NIOCore
import Telemetry
import XMLWire
import XMPP
import XMPPSession

/// An event of a connection to an endpoint.
enum EndpointEvent: Sendable {
    /// Stanzas may be sent over this channel.
    case bound(any Channel)
    case acks([AckWindow.Key])
    case ended(SessionEnd)
}

/// The delegate of a stream to an endpoint: it reports acks, and messages are sent over its channel.
final class EndpointStream: StreamDelegate {
    /// Messages are not for us: left unacked, they go to the worker once we are gone.
    static var takesMessages: Bool { false }

    private let events: AsyncStream<EndpointEvent>.Continuation
    private var reader = ServerAckReader()
    private var acks: [AckWindow.Key] = []

    private init(_ events: AsyncStream<EndpointEvent>.Continuation) { self.events = events }

    /// Opens a connection; the events end with ``EndpointEvent/ended(_:)``.
    static func open(_ settings: SenderSettings, on eventLoop: any EventLoop) -> AsyncStream<EndpointEvent> {
        let (stream, events) = AsyncStream<EndpointEvent>.makeStream()
        var settings = settings
        // Without presence a standard server sends us nothing meant for the worker.
        settings.stream.dialect = .ccs
        // The worker's resource would end the worker's session.
        settings.stream.resource = nil
        // The worker answers from an address of the account.
        settings.stream.trustedFrom.append(settings.stream.address)
        StreamHandler.open(settings, on: eventLoop) { EndpointStream(events) }
        return stream
    }

    func bound(_ stream: BoundStream, on channel: any Channel) -> Bool {
        events.yield(.bound(channel))
        return true
    }

    func noted(_ kind: DecodedStanza, in stanza: Stanza) -> String? {
        switch kind {
        case .ack:
            if let ack = reader.read(stanza) { acks.append(.init(id: ack.messageID.utf8, token: ack.to.utf8)) }
            return nil
        case .error(let error):
            return "the server sent a message back (\(error.condition.rawValue)): no worker is there to take it"
        case .message, .messages, .nack, .control, .untrusted, .archived, .other:
            return nil
        }
    }

    func readEnded() {
        guard !acks.isEmpty else { return }
        events.yield(.acks(acks))
        acks.removeAll(keepingCapacity: true)
    }

    func ended(_ end: SessionEnd) {
        readEnded()
        events.yield(.ended(end))
        events.finish()
    }
}

extension SessionEnd {
    /// Whether another connection would end the same way.
    var isFinal: Bool {
        guard case .failed = ending else { return false }
        switch reason {
        // A server that can't authenticate anybody now may do so later.
        case .authenticationFailed: return negotiation?.code != .authenticationUnavailable
        case .tlsFailed: return true
        default: return false
        }
    }
}
