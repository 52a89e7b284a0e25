import Digests
import Vocabulary
package import XMLWire

/// What a component's connection is negotiated with.
package struct ComponentConfiguration: Sendable {
    /// The component's domain: the `to` of the stream header, as the server's configuration spells it.
    package var domain: String
    /// What we share with the server.
    package var secret: Secret
    /// Whether the stream may be in the clear: the caller has checked the address that it is connected to.
    package var allowsClearText: Bool

    /// The configuration of one connection.
    package init(domain: String, secret: Secret, allowsClearText: Bool = false) {
        self.domain = domain
        self.secret = secret
        self.allowsClearText = allowsClearText
    }
}

/// From a connected transport to an accepted external component (XEP-0114 section 3), as a pure value.
///
/// ```
/// idle ──▶ awaitingHeader ──its id──▶ shakingHands ──<handshake/>──▶ finished
///                │
///                └──no id──▶ unidentified ──what comes next──▶ finished (with an error)
/// ```
/// There are no features, no SASL and no binding; the server sends its header, we answer with the digest of its stream id and
/// the secret, and it accepts or sends a stream error. Any state goes to `finished` with a ``NegotiationError``; after that
/// nothing has an effect. What else the server sends (features, stanzas that come too early) is passed over: it is not acked,
/// so whoever sent it sends it again.
///
/// The server proves nothing to us: only TLS, or a network that nobody else is in, tells that it is the right one.
package struct ComponentNegotiation: ~Copyable {
    enum State {
        /// The transport is not ready. To `awaitingHeader`.
        case idle
        /// Our header is sent. To `shakingHands`, `unidentified`.
        case awaitingHeader
        /// Our handshake is sent. To `finished`.
        case shakingHands
        /// The server's header has no id to make a handshake of: it is about to send a stream error, which says why. To
        /// `finished`.
        case unidentified
        /// Accepted, or failed. The last state.
        case finished
    }

    /// The longest stream id that a handshake is made of, in bytes.
    static let idLimit = 1_024

    private let configuration: ComponentConfiguration
    private(set) var state = State.idle

    /// A negotiation that waits for its transport.
    package init(configuration: ComponentConfiguration) { self.configuration = configuration }

    private var header: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(xml: "<?xml version=\"1.0\"?><stream:stream to=\"")
        bytes.append(escaping: configuration.domain.utf8)
        bytes.append(
            xml: "\" xmlns=\"jabber:component:accept\" xmlns:stream=\"http://etherx.jabber.org/streams\">"
        )
        return bytes
    }

    /// The transport is connected, and has finished its TLS handshake where it has one.
    ///
    /// - Parameter encrypted: Whether what is sent goes through verified TLS.
    /// - Returns: What to do.
    package mutating func transportReady(encrypted: Bool) -> Negotiation.ReadyAction {
        guard case .idle = state else { return .none }
        guard encrypted || configuration.allowsClearText else {
            return .fail(
                finish(NegotiationError(.notEncrypted, "the connection is not encrypted: nothing is sent over it"))
            )
        }
        state = .awaitingHeader
        return .send(header)
    }

    /// What to do about the peer's stream header.
    package enum OpenedAction: Sendable {
        /// Go on.
        case none
        /// Send these bytes.
        case send([UInt8])
        /// Close the transport.
        case fail(NegotiationError)
    }

    /// The peer's stream header came.
    ///
    /// - Parameter stream: Lent for the call, references in its attributes decoded: the digest is over the id itself.
    /// - Returns: What to do.
    package mutating func opened(_ stream: Stanza) -> OpenedAction {
        guard case .awaitingHeader = state else {
            if case .finished = state { return .none }
            return .fail(finish(NegotiationError(.badStream, "the server sent a stream header at a wrong moment")))
        }
        guard !stream.elements.isEmpty, stream.element(0, is: "stream", in: XMLNamespace.streams) else {
            return .fail(finish(NegotiationError(.badStream, "the peer is no XMPP server: check `host` and `port`")))
        }
        guard let id = stream.attribute("id", of: 0), !id.isEmpty else {
            state = .unidentified
            return .none
        }
        guard id.count <= ComponentNegotiation.idLimit else {
            return .fail(
                finish(
                    NegotiationError(
                        .badStream,
                        "the id of the server's stream is longer than \(ComponentNegotiation.idLimit) bytes"
                    )
                )
            )
        }
        state = .shakingHands
        return .send(handshake(id: stream.bytes[id]))
    }

    private func handshake(id: ArraySlice<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(xml: "<handshake>")
        bytes += Hex.encode(HashFunction.sha1.digest(of: Array(id) + configuration.secret.bytes)).utf8
        bytes.append(xml: "</handshake>")
        return bytes
    }

    /// A top-level element came.
    ///
    /// - Parameter stanza: Lent for the call.
    /// - Returns: What to do.
    package mutating func stanza(_ stanza: Stanza) -> Negotiation.StanzaAction {
        guard !stanza.elements.isEmpty else { return .none }
        switch state {
        case .idle, .awaitingHeader, .finished: return .none
        case .shakingHands, .unidentified: break
        }
        if let error = StreamError(stanza) {
            return .fail(finish(.component(error, domain: configuration.domain)))
        }
        guard case .shakingHands = state else { return .fail(finish(.unidentifiedStream)) }
        guard stanza.element(0, is: "handshake", in: XMLNamespace.component) else { return .none }
        guard let address = JID(configuration.domain) else {
            return .fail(finish(NegotiationError(.bindRefused, "`domain` is no XMPP domain", isPermanent: true)))
        }
        state = .finished
        return .bound(BoundStream(address: address, greeting: []))
    }

    /// The peer closed its stream.
    ///
    /// - Returns: What to report; nil where it has been reported already.
    package mutating func closed() -> NegotiationError? { end(.closed, "the server closed the stream") }

    /// The transport is gone.
    ///
    /// - Returns: What to report; nil where it has been reported already.
    package mutating func transportClosed() -> NegotiationError? { end(.closed, "the connection was closed") }

    /// The time for all of it is over.
    ///
    /// - Returns: What to report; nil where the negotiation is over.
    package mutating func timedOut() -> NegotiationError? { end(.timedOut, "no answer in time") }

    private mutating func end(_ code: NegotiationError.Code, _ event: String) -> NegotiationError? {
        switch state {
        case .finished: return nil
        case .unidentified: return finish(.unidentifiedStream)
        case .idle: return finish(NegotiationError(code, "\(event) before the stream began"))
        case .awaitingHeader:
            return finish(
                NegotiationError(
                    code,
                    "\(event) before its stream header: does the server have a listener for components on this port, with "
                        + "or without TLS as `tls.mode` says?"
                )
            )
        case .shakingHands: return finish(NegotiationError(code, "\(event) during the handshake: see the server's log"))
        }
    }

    private mutating func finish(_ error: NegotiationError) -> NegotiationError {
        state = .finished
        return error
    }
}

extension NegotiationError {
    /// The server's stream has no id.
    fileprivate static var unidentifiedStream: NegotiationError {
        NegotiationError(.badStream, "the server's stream has no id, which the handshake of a component needs")
    }

    /// The meaning of a stream error while a component is negotiated.
    fileprivate static func component(_ error: StreamError, domain: String) -> NegotiationError {
        let fix: String
        switch error.condition {
        case .notAuthorized:
            return NegotiationError(
                .authenticationRefused,
                "stream error not-authorized: the server refuses the component's secret: `secret_file` must hold the one of "
                    + "the server's configuration (Prosody: `component_secret`; ejabberd: the `password` of this domain in the "
                    + "`hosts` of its ejabberd_service listener, which must list the domain)",
                condition: error.condition.rawValue,
                isAuthentication: true,
                isPermanent: true
            )
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
            .streamError,
            "stream error \(error.summary): \(fix)",
            condition: error.condition.rawValue,
            isPermanent: error.condition != .conflict
        )
    }
}
