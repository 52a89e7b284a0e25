import Digests
import Vocabulary
import XMLWire

// An external component (XEP-0114 section 3): no features, SASL or binding. We answer the server's header with the
// digest of its id and the secret; the server proves nothing to us, so only TLS, or a network without strangers, shows
// that it is the right one.
extension Negotiation {
    /// The longest stream id that is used for a handshake, in bytes.
    static let idLimit = 1_024

    mutating func shakeHands(_ stream: Stanza) -> OpeningAction {
        guard let id = stream.attribute("id", of: 0), !id.isEmpty else {
            state = .unidentified
            return .none
        }
        guard id.count <= Negotiation.idLimit else {
            let limit = Negotiation.idLimit
            return .fail(finish(.badStream, "the id of the server's stream is longer than \(limit) bytes"))
        }
        state = .shakingHands
        let digest = HashFunction.sha1.digest(of: Array(stream.bytes[id]) + credentials.secret.bytes)
        return .send(Array("<handshake>\(Hex.encode(digest))</handshake>".utf8))
    }

    /// Handles the answer to our handshake; earlier stanzas are ignored and not acked, so their senders send them
    /// again.
    mutating func handshake(_ stanza: Stanza) -> StanzaAction {
        guard stanza.element(0, is: "handshake", in: XMLNamespace.component) else { return .none }
        guard let address = JID(settings.domain) else {
            return .fail(finish(.bindRefused, "`domain` is no XMPP domain", isPermanent: true))
        }
        state = .finished
        return .bound(BoundStream(address: address, greeting: []))
    }
}

extension NegotiationError {
    static var unidentifiedStream: NegotiationError {
        NegotiationError(.badStream, "the server's stream has no id, which the handshake of a component needs")
    }

    /// The meaning of a stream error while a component is negotiated.
    static func component(_ error: StreamError, domain: String) -> NegotiationError {
        let fix: String
        var code = Code.streamError
        switch error.condition {
        case .notAuthorized:
            code = .authenticationRefused
            fix =
                "the server refuses the component's secret: `secret_file` must hold the one of the server's configuration "
                + "(Prosody: `component_secret`; ejabberd: the `password` of this domain in the `hosts` of its "
                + "ejabberd_service listener, which must list the domain)"
        case .hostUnknown, .hostGone, .improperAddressing:
            fix =
                "the server knows no component \(domain): set `domain` to the name of one, spelled as in the server's "
                + "configuration (Prosody: `Component \"\(domain)\"`)"
        case .conflict:
            fix =
                "another connection serves this component: a second worker, or one whose connection the server still takes "
                + "for alive (Prosody serves one connection, and `component_conflict_resolve` says which; ejabberd: the "
                + "domain is one of the server's own hosts)"
        case .invalidNamespace:
            fix = "this port is not for components: set `port` to that of the server's component listener"
        default: return .stream(error)
        }
        return NegotiationError(
            code,
            "stream error \(error.summary): \(fix)",
            condition: error.condition.rawValue,
            isPermanent: error.condition != .conflict
        )
    }
}
