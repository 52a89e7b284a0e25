import Digests
import Vocabulary
package import XMLWire

/// The settings for negotiating a component's connection.
package struct ComponentConfiguration: Sendable {
    /// The component's domain: the `to` of the stream header, as spelled in the server's configuration.
    package var domain: String
    /// The secret shared with the server.
    package var secret: Secret
    /// Whether the stream may be unencrypted: the caller has checked the peer's address.
    package var allowsClearText: Bool

    package init(domain: String, secret: Secret, allowsClearText: Bool = false) {
        self.domain = domain
        self.secret = secret
        self.allowsClearText = allowsClearText
    }
}

/// The negotiation of an external component (XEP-0114 section 3) from a connected transport to acceptance, as a pure
/// value.
///
/// ```
/// idle ──▶ awaitingHeader ──its id──▶ shakingHands ──<handshake/>──▶ finished
///                │
///                └──no id──▶ unidentified ──what comes next──▶ finished (with an error)
/// ```
/// There are no features, no SASL and no binding: the server sends its header, we answer with the digest of its stream
/// id and the secret, and it accepts or sends a stream error. Any state goes to `finished` with a ``NegotiationError``;
/// after that nothing has an effect. Anything else the server sends (features, stanzas that come too early) is ignored:
/// it is not acked, so whoever sent it sends it again.
///
/// The server proves nothing to us: only TLS, or a network without strangers, shows that it is the right one.
package struct ComponentNegotiation: StreamNegotiation, ~Copyable {
    enum State {
        /// The transport is not ready. To `awaitingHeader`.
        case idle
        /// Our header is sent. To `shakingHands`, `unidentified`.
        case awaitingHeader
        /// Our handshake is sent. To `finished`.
        case shakingHands
        /// The server's header has no id for a handshake: a stream error, which says why, is about to follow. To
        /// `finished`.
        case unidentified
        /// Accepted, or failed. The last state.
        case finished
    }

    /// The longest stream id that is used for a handshake, in bytes.
    static let idLimit = 1_024

    private let configuration: ComponentConfiguration
    private(set) var state = State.idle

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

    /// Handles a connected transport, after its TLS handshake if it has one.
    ///
    /// - Parameters:
    ///   - encrypted: Whether the transport is verified TLS.
    ///   - bindings: Not used: there is no SASL.
    /// - Returns: The next step.
    package mutating func transportReady(
        encrypted: Bool,
        bindings: [ChannelBinding] = []
    ) -> Negotiation.ReadyAction {
        guard case .idle = state else { return .none }
        guard encrypted || configuration.allowsClearText else {
            return .fail(
                finish(NegotiationError(.notEncrypted, "the connection is not encrypted: nothing is sent over it"))
            )
        }
        state = .awaitingHeader
        return .send(header)
    }

    /// Handles the peer's stream header.
    ///
    /// - Parameter stream: Lent for the call, references in its attributes decoded: the digest is over the id itself.
    /// - Returns: The next step.
    package mutating func opened(_ stream: Stanza) -> Negotiation.OpenedAction {
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

    /// Handles a top-level element.
    ///
    /// - Parameters:
    ///   - stanza: Lent for the call.
    ///   - trailingBytes: Not used: TLS begins before the stream.
    /// - Returns: The next step.
    package mutating func stanza(_ stanza: Stanza, trailingBytes: Int = 0) -> Negotiation.StanzaAction {
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

    /// Handles the peer's closing of its stream.
    ///
    /// - Returns: The error to report; nil if one was reported already.
    package mutating func closed() -> NegotiationError? { end(.closed, "the server closed the stream") }

    /// Handles the loss of the transport.
    ///
    /// - Returns: The error to report; nil if one was reported already.
    package mutating func transportClosed() -> NegotiationError? { end(.closed, "the connection was closed") }

    /// Handles the end of the time for negotiation.
    ///
    /// - Returns: The error to report; nil if the negotiation is over.
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
