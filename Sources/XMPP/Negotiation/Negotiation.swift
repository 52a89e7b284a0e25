import Digests
package import Vocabulary
package import XMLWire

/// How a connection becomes encrypted (configuration key `tls.mode`).
package enum TLSMode: String, Sendable, CaseIterable {
    /// TLS from the first byte.
    case direct
    /// STARTTLS, required: without an offer there is no connection.
    case starttls
    /// Not at all, to a component's server only: the caller has checked the peer's address.
    case none
}

/// A session whose connection was lost, and which the server holds.
package struct SuspendedSession: Sendable, Equatable {
    package var address: JID
    package var management: StreamManagement
}

/// A stream that is ready for stanzas.
package struct BoundStream: Sendable, Equatable {
    package var address: JID
    /// The bytes to send first: a session request if the server requires one, then, to a standard server, the request
    /// for stream management if offered, and presence unless something stored is to be read.
    package var greeting: [UInt8]
    package var management = StreamManagement.Offer.unused
    package var limits = ServerLimits()
    /// Stream management resumed from a lost connection (XEP-0198 section 5); nil on a new session.
    package var resumed: StreamManagement?
}

/// The negotiation from a connected transport to a bound stream, as a pure value (drawn in docs/state-machines.md).
///
/// Any state goes to `finished` with a ``NegotiationError``; after that nothing has an effect. Anything outside the
/// exchange is ignored, so that a notice from the server can't stop us; the caller's timeout bounds how long. The
/// session request of old servers (RFC 3921) is part of ``BoundStream/greeting`` and its answer is not awaited:
/// messages may come first, and must not get lost.
package struct Negotiation: ~Copyable {
    /// The stage of the current stream.
    enum Phase {
        /// Not encrypted; only STARTTLS may follow.
        case plain
        /// Encrypted, not authenticated.
        case secured
        /// Encrypted and authenticated.
        case authenticated
    }

    enum State {
        /// The transport is not ready. To `awaitingHeader`.
        case idle
        /// Our header is sent. To `awaitingFeatures`; a component's to `shakingHands`, `unidentified`.
        case awaitingHeader(Phase)
        /// The peer's header came. To `awaitingProceed`, `authenticating`, `binding`.
        case awaitingFeatures(Phase)
        /// `<starttls/>` is sent. To `startingTLS`.
        case awaitingProceed
        /// The caller makes TLS. To `awaitingHeader(.secured)`.
        case startingTLS
        /// `<auth/>` is sent; PLAIN and EXTERNAL need no more. To `deriving`, `awaitingHeader(.authenticated)`.
        case authenticating(SCRAM?)
        /// The caller computes a key. To `authenticating`.
        case deriving(SCRAM)
        /// The request to resume a session is sent. To `finished`; to `binding` where the offline store isn't fetched.
        case resuming(Offers, SuspendedSession)
        /// The bind request is sent. To `finished`.
        case binding(Offers)
        /// A component's handshake is sent. To `finished`.
        case shakingHands
        /// The header of a component's server has no id: a stream error that says why will follow. To `finished`.
        case unidentified
        /// Bound, or failed. The last state.
        case finished
    }

    struct Offers {
        /// Whether it requires a session request first (RFC 3921).
        var session = false
        var management = false
        var limits = ServerLimits()
    }

    let settings: StreamSettings
    let credentials: SASLCredentials
    let suspended: SuspendedSession?
    let idPrefix: String
    let nonce: [UInt8]
    private var mode: TLSMode
    /// Changed only by the negotiation's own extensions.
    var state = State.idle
    /// The channel bindings that TLS provides, strongest first.
    var bindings: [ChannelBinding] = []
    /// The chosen way to sign in; nil before that is decided, and for a component.
    package internal(set) var signIn: SignIn?

    /// A negotiation that waits for its transport, with a session to resume, if any.
    ///
    /// New and random for each connection are the prefix of our IQs' ids, since whoever can guess an id could answer in
    /// the server's place, and the nonce of SASL, at least 16 bytes.
    package init(
        _ settings: StreamSettings,
        secret: Secret,
        mode: TLSMode = .direct,
        suspended: SuspendedSession? = nil,
        idPrefix: String,
        nonce: [UInt8]
    ) {
        self.settings = settings
        credentials = SASLCredentials(username: settings.username, secret: secret)
        self.mode = mode
        self.suspended = suspended
        self.idPrefix = idPrefix
        self.nonce = nonce
    }

    var isComponent: Bool { settings.dialect == .component }

    /// Sets how TLS begins at the place that the transport is connected to; without effect once the transport is ready.
    package mutating func connected(_ mode: TLSMode) {
        if case .idle = state { self.mode = mode }
    }

    package enum Action: Sendable {
        case none
        case send([UInt8])
        /// Reset the parser, begin TLS on this transport, then call
        /// ``Negotiation/transportReady(encrypted:bindings:)``.
        case startTLS
        /// Begin a new stream on the same transport: reset the parser, then send these bytes.
        case restart([UInt8])
        /// Compute the key, off the event loop, then call ``Negotiation/derived(_:)``.
        case derive(KeyDerivation)
        /// Done: send the greeting and hand the stream to a ``Session``.
        case bound(BoundStream)
        case fail(NegotiationError)
    }

    /// Handles a connected transport or, after ``Action/startTLS``, a finished handshake, with TLS's bindings.
    package mutating func transportReady(encrypted: Bool, bindings: [ChannelBinding] = []) -> Action {
        switch state {
        case .idle where encrypted || isComponent && mode == .none, .startingTLS where encrypted:
            self.bindings = ChannelBinding.Kind.allCases.compactMap { kind in bindings.first { $0.kind == kind } }
            state = .awaitingHeader(.secured)
        case .idle where mode == .starttls && !isComponent:
            state = .awaitingHeader(.plain)
        case .idle, .startingTLS:
            return .fail(finish(.notEncrypted, "the connection is not encrypted: nothing is sent over it"))
        default:
            return .none
        }
        return .send(header)
    }

    /// Handles the peer's stream header, whose attributes' references are decoded.
    package mutating func opened(_ stream: Stanza) -> Action {
        guard case .awaitingHeader(let phase) = state else {
            if case .finished = state { return .none }
            return .fail(finish(.badStream, "the server sent a stream header at a wrong moment"))
        }
        guard !stream.elements.isEmpty, stream.element(0, is: "stream", in: XMLNamespace.streams) else {
            return .fail(finish(.badStream, "the peer is no XMPP server: check `host` and `port`"))
        }
        if isComponent { return shakeHands(stream) }
        // RFC 6120 section 4.7.5: without a version the peer knows neither features nor SASL.
        guard let version = stream.attribute("version", of: 0), stream.string(version).hasPrefix("1.") else {
            return .fail(finish(.badStream, "the server does not speak XMPP 1.0: its stream has no version 1.x"))
        }
        state = .awaitingFeatures(phase)
        return .none
    }

    /// Handles a top-level element; no bytes may follow `<proceed/>`, since they would be taken for encrypted ones.
    package mutating func stanza(_ stanza: Stanza, trailingBytes: Int) -> Action {
        guard !stanza.elements.isEmpty else { return .none }
        if case .finished = state { return .none }
        if let error = StreamError(stanza) {
            return .fail(finish(isComponent ? .component(error, domain: settings.domain) : .stream(error)))
        }
        switch state {
        case .awaitingFeatures(let phase):
            guard stanza.element(0, is: "features", in: XMLNamespace.streams) else { return .none }
            return features(stanza, phase)
        case .awaitingProceed: return proceed(stanza, trailingBytes: trailingBytes)
        case .authenticating(let scram): return authentication(stanza, scram)
        case .deriving: return whileDeriving(stanza)
        case .resuming(let offers, let suspended): return resumption(stanza, offers, suspended)
        case .binding(let offers): return bindResult(stanza, offers)
        case .shakingHands: return handshake(stanza)
        case .unidentified: return .fail(finish(.unidentifiedStream))
        case .idle, .awaitingHeader, .startingTLS, .finished: return .none
        }
    }

    /// An end of the negotiation from outside.
    package enum End: Sendable {
        case streamClosed
        case transportClosed
        case timedOut
    }

    /// Handles an end; returns the error to report, or nil if one was reported already.
    package mutating func ended(_ end: End) -> NegotiationError? {
        switch (state, end) {
        case (.finished, _): nil
        case (.unidentified, _): finish(.unidentifiedStream)
        case (_, .streamClosed): finish(.closed, "the server closed the stream \(moment)")
        case (_, .transportClosed): finish(.closed, "the connection was closed \(moment)")
        case (_, .timedOut): finish(.timedOut, "no answer in time \(moment)")
        }
    }

    /// Ends the negotiation for this reason.
    mutating func finish(_ error: NegotiationError) -> NegotiationError {
        state = .finished
        return error
    }

    mutating func finish(_ code: NegotiationError.Code, _ message: String) -> NegotiationError {
        finish(NegotiationError(code, message))
    }

    private var moment: String {
        switch state {
        case .idle: "before the stream began"
        case .awaitingHeader where isComponent:
            "before its stream header: does the server have a listener for components on this port, with or without TLS "
                + "as `tls.mode` says?"
        case .awaitingHeader(.plain), .awaitingFeatures(.plain): "before STARTTLS: is this port for direct TLS?"
        case .awaitingHeader(.secured), .awaitingFeatures(.secured): "before authentication"
        case .awaitingHeader(.authenticated), .awaitingFeatures(.authenticated): "after authentication"
        case .awaitingProceed, .startingTLS: "during STARTTLS"
        case .authenticating, .deriving: "during authentication"
        case .resuming: "during resumption"
        case .binding: "during resource binding"
        case .shakingHands, .unidentified: "during the handshake: see the server's log"
        case .finished: "after negotiation"
        }
    }

    // MARK: The stream header and STARTTLS

    /// Our stream header, to the configured domain.
    var header: [UInt8] {
        var attributes = "to=\"\(settings.domain.xmlEscaped)\""
        // RFC 6120 section 4.7.1, and XEP-0388, whose mechanisms may depend on the account; not sent unencrypted.
        if settings.dialect == .xmpp, isEncrypted { attributes += " from=\"\(settings.address.xmlEscaped)\"" }
        if !isComponent { attributes += " version=\"1.0\"" }
        attributes += " xmlns=\"\(isComponent ? XMLNamespace.component : XMLNamespace.client)\""
        attributes += " xmlns:stream=\"\(XMLNamespace.streams)\""
        return Array("<?xml version=\"1.0\"?><stream:stream \(attributes)>".utf8)
    }

    private var isEncrypted: Bool {
        if case .awaitingHeader(.plain) = state { false } else { true }
    }

    /// Handles the server's features, depending on the phase.
    private mutating func features(_ stanza: Stanza, _ phase: Phase) -> Action {
        switch phase {
        case .plain:
            guard stanza.child("starttls", in: XMLNamespace.tls) != nil else {
                let message =
                    "the server offers no STARTTLS and nothing is sent unencrypted: enable it there, or use "
                    + "`tls.mode: direct` with the server's port for direct TLS"
                return .fail(finish(.tlsNotOffered, message))
            }
            state = .awaitingProceed
            return .send(Array("<starttls xmlns=\"urn:ietf:params:xml:ns:xmpp-tls\"/>".utf8))
        case .secured: return authenticate(stanza)
        case .authenticated: return bind(stanza)
        }
    }

    private mutating func proceed(_ stanza: Stanza, trailingBytes: Int) -> Action {
        if stanza.element(0, is: "failure", in: XMLNamespace.tls) {
            return .fail(finish(.tlsRefused, "the server refused STARTTLS: see the server's log"))
        }
        guard stanza.element(0, is: "proceed", in: XMLNamespace.tls) else { return .none }
        guard trailingBytes == 0 else {
            let message =
                "unencrypted bytes followed the server's <proceed/>: somebody on the network path may have put them there"
            return .fail(finish(.tlsInjection, message))
        }
        state = .startingTLS
        return .startTLS
    }

    // MARK: External components

    // XEP-0114 section 3: no features, SASL or binding. We answer the server's header with the digest of its id and the
    // secret; the server proves nothing to us, so only TLS, or a closed network, shows which it is.

    /// The longest stream id that is used for a handshake, in bytes.
    static let idLimit = 1_024

    private mutating func shakeHands(_ stream: Stanza) -> Action {
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

    /// Handles the answer to our handshake; earlier stanzas are not acked, so they are sent again.
    private mutating func handshake(_ stanza: Stanza) -> Action {
        guard stanza.element(0, is: "handshake", in: XMLNamespace.component) else { return .none }
        guard let address = JID(settings.domain) else {
            return .fail(finish(.bindRefused, "`domain` is no XMPP domain"))
        }
        state = .finished
        return .bound(BoundStream(address: address, greeting: []))
    }
}
