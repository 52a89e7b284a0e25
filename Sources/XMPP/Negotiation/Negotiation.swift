package import XMLWire

/// From a connected transport to a bound stream, as a pure value: each event returns what to do.
///
/// ```
/// idle ──▶ awaitingHeader ──▶ awaitingFeatures ─┬─ plain ──▶ awaitingProceed ──▶ startingTLS ──▶ awaitingHeader
///                 ▲                             ├─ secured ──▶ authenticating ──▶ awaitingHeader
///                 └─────────────────────────────┴─ authenticated ──▶ binding ──▶ finished
/// ```
/// Any state goes to `finished` with a ``NegotiationError``; after that nothing has an effect. What the server sends that
/// is not part of the exchange is passed over, so that a notice of some kind can't stop us; the caller's timeout bounds how
/// long. The session request of old servers (RFC 3921) is part of ``BoundStream/greeting`` and not waited for: messages may
/// come before its answer, and must not get lost.
package struct Negotiation: ~Copyable {
    /// How far the stream in hand is.
    private enum Phase {
        /// Not encrypted; only STARTTLS may follow.
        case plain
        /// Encrypted, not authenticated.
        case secured
        /// Encrypted and authenticated.
        case authenticated
    }

    private enum State {
        /// The transport is not ready. To `awaitingHeader`.
        case idle
        /// Our header is sent. To `awaitingFeatures`.
        case awaitingHeader(Phase)
        /// The peer's header came. To `awaitingProceed`, `authenticating`, `binding`.
        case awaitingFeatures(Phase)
        /// `<starttls/>` is sent. To `startingTLS`.
        case awaitingProceed
        /// The caller makes TLS. To `awaitingHeader(.secured)`.
        case startingTLS
        /// `<auth/>` is sent. To `awaitingHeader(.authenticated)`.
        case authenticating(any SASLMechanism)
        /// The bind request is sent. To `finished`.
        case binding(session: Bool)
        /// Bound, or failed. The last state.
        case finished
    }

    private let configuration: NegotiationConfiguration
    private var state = State.idle

    /// A negotiation that waits for its transport.
    package init(configuration: NegotiationConfiguration) { self.configuration = configuration }

    /// What to do when the transport is ready.
    package enum ReadyAction: Sendable {
        /// Begin the stream with these bytes.
        case send([UInt8])
        /// Not expected now; nothing to do.
        case none
        /// Close the transport.
        case fail(NegotiationError)
    }

    /// The transport is connected, or, after ``StanzaAction/startTLS``, has finished its handshake.
    ///
    /// - Parameter encrypted: Whether what is sent from now on goes through verified TLS.
    /// - Returns: What to do.
    package mutating func transportReady(encrypted: Bool) -> ReadyAction {
        switch state {
        case .idle where encrypted, .startingTLS where encrypted:
            state = .awaitingHeader(.secured)
        case .idle where configuration.tlsMode == .starttls:
            state = .awaitingHeader(.plain)
        case .idle, .startingTLS:
            return .fail(
                finish(NegotiationError(.notEncrypted, "the connection is not encrypted: nothing is sent over it"))
            )
        case .awaitingHeader, .awaitingFeatures, .awaitingProceed, .authenticating, .binding, .finished:
            return .none
        }
        return .send(header)
    }

    /// What to do about the peer's stream header.
    package enum OpenedAction: Sendable {
        /// Go on.
        case none
        /// Close the transport.
        case fail(NegotiationError)
    }

    /// The peer's stream header came.
    ///
    /// - Parameter stream: Lent for the call.
    /// - Returns: What to do.
    package mutating func opened(_ stream: Stanza) -> OpenedAction {
        guard case .awaitingHeader(let phase) = state else {
            if case .finished = state { return .none }
            return .fail(finish(NegotiationError(.badStream, "the server sent a stream header at a wrong moment")))
        }
        guard !stream.elements.isEmpty, stream.element(0, is: "stream", in: XMLNamespace.streams) else {
            return .fail(finish(NegotiationError(.badStream, "the peer is no XMPP server: check `host` and `port`")))
        }
        // RFC 6120 section 4.7.5: without a version the peer knows neither features nor SASL.
        guard let version = stream.attribute("version", of: 0), stream.string(version).hasPrefix("1.") else {
            return .fail(
                finish(
                    NegotiationError(.badStream, "the server does not speak XMPP 1.0: its stream has no version 1.x")
                )
            )
        }
        state = .awaitingFeatures(phase)
        return .none
    }

    /// What to do about a stanza.
    package enum StanzaAction: Sendable {
        /// Go on.
        case none
        /// Send these bytes.
        case send([UInt8])
        /// Make TLS on this transport, then call ``Negotiation/transportReady(encrypted:)``.
        ///
        /// The parser begins anew.
        case startTLS
        /// Begin a new stream on the same transport: reset the parser, then send these bytes.
        case restart([UInt8])
        /// Done: send the greeting and hand the stream to a ``Session``.
        case bound(BoundStream)
        /// Close the transport.
        case fail(NegotiationError)
    }

    /// A top-level element came.
    ///
    /// - Parameters:
    ///   - stanza: Lent for the call.
    ///   - trailingBytes: How many bytes have been received after the element. None may follow `<proceed/>`: they would
    ///     have come in the clear and be taken for encrypted ones.
    /// - Returns: What to do.
    package mutating func stanza(_ stanza: Stanza, trailingBytes: Int) -> StanzaAction {
        guard !stanza.elements.isEmpty else { return .none }
        if case .finished = state { return .none }
        if let error = StreamError(stanza) { return .fail(finish(.stream(error))) }
        switch state {
        case .awaitingFeatures(let phase):
            guard stanza.element(0, is: "features", in: XMLNamespace.streams) else { return .none }
            return features(stanza, phase)
        case .awaitingProceed:
            return proceed(stanza, trailingBytes: trailingBytes)
        case .authenticating(let mechanism):
            return authentication(stanza, mechanism)
        case .binding(let session):
            return bindResult(stanza, session: session)
        case .idle, .awaitingHeader, .startingTLS, .finished:
            return .none
        }
    }

    /// The peer closed its stream.
    ///
    /// - Returns: What to report; nil where it has been reported already.
    package mutating func closed() -> NegotiationError? {
        end(.closed, "the server closed the stream \(moment)")
    }

    /// The transport is gone.
    ///
    /// - Returns: What to report; nil where it has been reported already.
    package mutating func transportClosed() -> NegotiationError? {
        end(.closed, "the connection was closed \(moment)")
    }

    /// The time for all of it is over.
    ///
    /// - Returns: What to report; nil where the negotiation is over.
    package mutating func timedOut() -> NegotiationError? {
        end(.timedOut, "no answer in time \(moment)")
    }

    private mutating func end(_ code: NegotiationError.Code, _ message: String) -> NegotiationError? {
        if case .finished = state { return nil }
        return finish(NegotiationError(code, message))
    }

    private mutating func finish(_ error: NegotiationError) -> NegotiationError {
        state = .finished
        return error
    }

    /// Where we stand, for messages.
    private var moment: String {
        switch state {
        case .idle: "before the stream began"
        case .awaitingHeader(.plain), .awaitingFeatures(.plain): "before STARTTLS: is this port for direct TLS?"
        case .awaitingHeader(.secured), .awaitingFeatures(.secured): "before authentication"
        case .awaitingHeader(.authenticated), .awaitingFeatures(.authenticated): "after authentication"
        case .awaitingProceed, .startingTLS: "during STARTTLS"
        case .authenticating: "during authentication"
        case .binding: "during resource binding"
        case .finished: "after negotiation"
        }
    }
}

// The steps.
extension Negotiation {
    private var header: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(xml: "<?xml version=\"1.0\"?><stream:stream to=\"")
        bytes.append(escaping: configuration.domain.utf8)
        bytes.append(
            xml: "\" version=\"1.0\" xmlns=\"jabber:client\" xmlns:stream=\"http://etherx.jabber.org/streams\">"
        )
        return bytes
    }

    private mutating func features(_ stanza: Stanza, _ phase: Phase) -> StanzaAction {
        switch phase {
        case .plain:
            guard stanza.child("starttls", in: XMLNamespace.tls) != nil else {
                return .fail(
                    finish(
                        NegotiationError(
                            .tlsNotOffered,
                            "the server offers no STARTTLS and nothing is sent unencrypted: enable it there, or use "
                                + "`tls.mode: direct` with the server's port for direct TLS",
                            isPermanent: true
                        )
                    )
                )
            }
            state = .awaitingProceed
            return .send(Array("<starttls xmlns=\"urn:ietf:params:xml:ns:xmpp-tls\"/>".utf8))
        case .secured:
            return authenticate(stanza)
        case .authenticated:
            return bind(stanza)
        }
    }

    private mutating func proceed(_ stanza: Stanza, trailingBytes: Int) -> StanzaAction {
        if stanza.element(0, is: "failure", in: XMLNamespace.tls) {
            return .fail(finish(NegotiationError(.tlsRefused, "the server refused STARTTLS: see the server's log")))
        }
        guard stanza.element(0, is: "proceed", in: XMLNamespace.tls) else { return .none }
        guard trailingBytes == 0 else {
            return .fail(
                finish(
                    NegotiationError(
                        .tlsInjection,
                        "bytes came in the clear after the server's consent to TLS: somebody on the way may have put "
                            + "them there"
                    )
                )
            )
        }
        state = .startingTLS
        return .startTLS
    }

    private mutating func authenticate(_ stanza: Stanza) -> StanzaAction {
        var offered: [String] = []
        if let list = stanza.child("mechanisms", in: XMLNamespace.sasl) {
            for child in stanza.children(of: list) where stanza.element(child, is: "mechanism", in: XMLNamespace.sasl) {
                offered.append(stanza.string(stanza.elements[child].text))
            }
        }
        guard let chosen = SASLMechanisms.choose(among: offered, encrypted: true) else {
            let known = SASLMechanisms.preferred.map { $0.name }.joined(separator: ", ")
            let names = PeerText.fit(offered.prefix(10).joined(separator: ", ").utf8)
            return .fail(
                finish(
                    NegotiationError(
                        .noMechanism,
                        "the server offers no SASL mechanism we can use (offered: \(names.isEmpty ? "none" : names); "
                            + "ours: \(known)): allow one of ours for connections with TLS",
                        isAuthentication: true,
                        isPermanent: true
                    )
                )
            )
        }
        var mechanism = chosen.init(credentials: configuration.credentials)
        var bytes: [UInt8] = []
        bytes.append(xml: "<auth xmlns=\"urn:ietf:params:xml:ns:xmpp-sasl\" mechanism=\"")
        bytes += Array(chosen.name.utf8)
        bytes.append(xml: "\">")
        // RFC 6120 section 6.4.2: an empty initial response is a single equals sign.
        if let response = mechanism.initialResponse() {
            bytes += response.isEmpty ? [UInt8(ascii: "=")] : Base64.encode(response)
        }
        bytes.append(xml: "</auth>")
        state = .authenticating(mechanism)
        return .send(bytes)
    }

    private mutating func authentication(_ stanza: Stanza, _ mechanism: any SASLMechanism) -> StanzaAction {
        guard stanza.equals(stanza.elements[0].namespace, XMLNamespace.sasl) else { return .none }
        var mechanism = mechanism
        let text = stanza.bytes[stanza.elements[0].text]
        let name = stanza.string(stanza.elements[0].name)
        if name == "failure" { return .fail(finish(saslFailure(stanza))) }
        guard name == "challenge" || name == "success" else { return .none }
        let encoded = text.elementsEqual([UInt8(ascii: "=")]) ? [] : Base64.decode(text)
        do throws(SASLMechanismError) {
            guard let data = encoded else {
                throw SASLMechanismError(message: "the server's SASL message is not Base64")
            }
            if name == "success" {
                try mechanism.finish(with: text.isEmpty ? nil : data)
                state = .awaitingHeader(.authenticated)
                return .restart(header)
            }
            let response = try mechanism.respond(to: data)
            state = .authenticating(mechanism)
            var bytes: [UInt8] = []
            bytes.append(xml: "<response xmlns=\"urn:ietf:params:xml:ns:xmpp-sasl\">")
            bytes += Base64.encode(response)
            bytes.append(xml: "</response>")
            return .send(bytes)
        } catch {
            return .fail(finish(NegotiationError(.authenticationProtocol, error.message, isAuthentication: true)))
        }
    }

    private func saslFailure(_ stanza: Stanza) -> NegotiationError {
        var condition = "undefined-condition"
        var text = ""
        for child in stanza.children() where stanza.equals(stanza.elements[child].namespace, XMLNamespace.sasl) {
            if stanza.equals(stanza.elements[child].name, "text") {
                text = PeerText.fit(stanza.bytes[stanza.elements[child].text])
            } else {
                condition = PeerText.fit(stanza.bytes[stanza.elements[child].name])
            }
        }
        return .sasl(condition: condition, text: text)
    }

    private var bindID: String { configuration.idPrefix + "-bind" }

    private mutating func bind(_ stanza: Stanza) -> StanzaAction {
        guard stanza.child("bind", in: XMLNamespace.bind) != nil else {
            return .fail(
                finish(
                    NegotiationError(
                        .bindRefused,
                        "the server offers no resource binding: is it an XMPP server for clients?"
                    )
                )
            )
        }
        var session = false
        if let offer = stanza.child("session", in: XMLNamespace.session) {
            session = stanza.child("optional", in: XMLNamespace.session, of: offer) == nil
        }
        var bytes: [UInt8] = []
        bytes.append(xml: "<iq type=\"set\" id=\"")
        bytes.append(escaping: bindID.utf8)
        bytes.append(xml: "\"><bind xmlns=\"urn:ietf:params:xml:ns:xmpp-bind\">")
        if let resource = configuration.resource {
            bytes.append(xml: "<resource>")
            bytes.append(escaping: resource.utf8)
            bytes.append(xml: "</resource>")
        }
        bytes.append(xml: "</bind></iq>")
        state = .binding(session: session)
        return .send(bytes)
    }

    private mutating func bindResult(_ stanza: Stanza, session: Bool) -> StanzaAction {
        guard stanza.element(0, is: "iq", in: XMLNamespace.client), isFromServer(stanza) else { return .none }
        // Servers of the field leave the id out; a wrong one is somebody else's answer.
        if let id = stanza.attribute("id", of: 0), stanza.string(id) != bindID { return .none }
        guard let type = stanza.attribute("type", of: 0) else { return .none }
        if stanza.equals(type, "error") {
            let error = StanzaError(stanza)
            let text = error.text.isEmpty ? "" : " (\(error.text))"
            return .fail(
                finish(
                    NegotiationError(
                        .bindRefused,
                        "the server refused to bind: \(error.condition.rawValue)\(text); see its limits on resources",
                        condition: error.condition.rawValue
                    )
                )
            )
        }
        guard stanza.equals(type, "result") else { return .none }
        guard let bind = stanza.child("bind", in: XMLNamespace.bind),
            let element = stanza.child("jid", in: XMLNamespace.bind, of: bind),
            let address = JID(stanza.string(stanza.elements[element].text))
        else {
            return .fail(finish(NegotiationError(.bindRefused, "the server's answer to the binding holds no address")))
        }
        state = .finished
        return .bound(BoundStream(address: address, greeting: greeting(session: session)))
    }

    /// Whether an IQ is the server's: it names nobody, the domain, or our own account (RFC 6120 section 8.1.2.1).
    private func isFromServer(_ stanza: Stanza) -> Bool {
        guard let from = stanza.attribute("from", of: 0) else { return true }
        guard let sender = JID(stanza.string(from)), let domain = JID(configuration.domain) else { return false }
        return sender == domain || sender.bare == JID("\(configuration.localpart)@\(configuration.domain)")
    }

    private func greeting(session: Bool) -> [UInt8] {
        var bytes: [UInt8] = []
        if session {
            bytes.append(xml: "<iq type=\"set\" id=\"")
            bytes.append(escaping: (configuration.idPrefix + "-session").utf8)
            bytes.append(xml: "\"><session xmlns=\"urn:ietf:params:xml:ns:xmpp-session\"/></iq>")
        }
        if configuration.dialect == .xmpp { bytes.append(xml: "<presence/>") }
        return bytes
    }
}
