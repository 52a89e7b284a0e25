package import XMLWire

/// The negotiation from a connected transport to a bound stream, as a pure value: each event returns the next step.
///
/// ```
/// idle ──▶ awaitingHeader ──▶ awaitingFeatures ─┬─ plain ──▶ awaitingProceed ──▶ startingTLS ──▶ awaitingHeader
///                 ▲                             ├─ secured ──▶ authenticating ──▶ awaitingHeader
///                 └─────────────────────────────┴─ authenticated ─┬─▶ binding ──▶ finished
///                                                                 └─▶ resuming ──▶ binding, finished
///
/// authenticating ──a key is needed──▶ deriving ──the key──▶ authenticating
/// ```
/// Any state goes to `finished` with a ``NegotiationError``; after that nothing has an effect. Anything outside the
/// exchange is ignored, so that a notice from the server can't stop us; the caller's timeout bounds how long. The
/// session request of old servers (RFC 3921) is part of ``BoundStream/greeting`` and its answer is not awaited:
/// messages may come first, and must not get lost.
package struct Negotiation: StreamNegotiation, ~Copyable {
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
        /// Our header is sent. To `awaitingFeatures`.
        case awaitingHeader(Phase)
        /// The peer's header came. To `awaitingProceed`, `authenticating`, `binding`.
        case awaitingFeatures(Phase)
        /// `<starttls/>` is sent. To `startingTLS`.
        case awaitingProceed
        /// The caller makes TLS. To `awaitingHeader(.secured)`.
        case startingTLS
        /// `<auth/>` is sent. To `deriving`, `awaitingHeader(.authenticated)`.
        case authenticating(any SASLMechanism)
        /// The caller computes a key for the mechanism. To `authenticating`.
        case deriving(any SASLMechanism)
        /// The request to resume a session is sent. To `binding`, `finished`.
        case resuming(Offers, SuspendedSession)
        /// The bind request is sent. To `finished`.
        case binding(Offers)
        /// Bound, or failed. The last state.
        case finished
    }

    /// What the server offers in its features.
    struct Offers {
        /// Whether it requires a session request first (RFC 3921).
        var session = false
        /// Stream management (XEP-0198).
        var management = false
        /// Its limits for the stream.
        var limits = ServerLimits()
    }

    private(set) var configuration: NegotiationConfiguration
    /// Changed only by the negotiation's own extensions.
    var state = State.idle
    /// The channel bindings that TLS provides, strongest first.
    var bindings: [ChannelBinding] = []
    /// The chosen way to sign in; nil before that is decided.
    package internal(set) var signIn: SignIn?

    /// A negotiation that waits for its transport.
    package init(configuration: NegotiationConfiguration) { self.configuration = configuration }

    /// Sets how TLS begins at the place that the transport is connected to: for a server that is looked up when needed.
    ///
    /// Without effect once the transport is ready.
    package mutating func connected(_ mode: NegotiationConfiguration.TLSMode) {
        if case .idle = state { configuration.tlsMode = mode }
    }

    /// The next step when the transport is ready.
    package enum ReadyAction: Sendable {
        /// Begin the stream with these bytes.
        case send([UInt8])
        /// Nothing: the event was not expected.
        case none
        /// Close the transport.
        case fail(NegotiationError)
    }

    /// Handles a connected transport, or, after ``StanzaAction/startTLS``, a finished handshake.
    ///
    /// - Parameters:
    ///   - encrypted: Whether the transport is verified TLS from now on.
    ///   - bindings: The channel bindings that this TLS provides.
    /// - Returns: The next step.
    package mutating func transportReady(encrypted: Bool, bindings: [ChannelBinding] = []) -> ReadyAction {
        switch state {
        case .idle where encrypted, .startingTLS where encrypted:
            self.bindings = ChannelBinding.Kind.allCases.compactMap { kind in bindings.first { $0.kind == kind } }
            state = .awaitingHeader(.secured)
        case .idle where configuration.tlsMode == .starttls:
            state = .awaitingHeader(.plain)
        case .idle, .startingTLS:
            return .fail(
                finish(NegotiationError(.notEncrypted, "the connection is not encrypted: nothing is sent over it"))
            )
        case .awaitingHeader, .awaitingFeatures, .awaitingProceed, .authenticating, .deriving, .resuming, .binding,
            .finished:
            return .none
        }
        return .send(header)
    }

    /// The next step after the peer's stream header.
    package enum OpenedAction: Sendable {
        /// Continue.
        case none
        /// Send these bytes: a component's handshake.
        case send([UInt8])
        /// Close the transport.
        case fail(NegotiationError)
    }

    /// Handles the peer's stream header.
    ///
    /// - Parameter stream: Lent for the call.
    /// - Returns: The next step.
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

    /// The next step after a stanza.
    package enum StanzaAction: Sendable {
        /// Continue.
        case none
        /// Send these bytes.
        case send([UInt8])
        /// Begin TLS on this transport, then call ``Negotiation/transportReady(encrypted:bindings:)``.
        ///
        /// The parser is reset.
        case startTLS
        /// Begin a new stream on the same transport: reset the parser, then send these bytes.
        case restart([UInt8])
        /// Compute the key, off the event loop, then call ``Negotiation/derived(_:)``.
        case derive(KeyDerivation)
        /// Done: send the greeting and hand the stream to a ``Session``.
        case bound(BoundStream)
        /// Close the transport.
        case fail(NegotiationError)
    }

    /// Handles a top-level element.
    ///
    /// - Parameters:
    ///   - stanza: Lent for the call.
    ///   - trailingBytes: The number of bytes received after the element. None may follow `<proceed/>`: they would be
    ///     unencrypted and taken for encrypted ones.
    /// - Returns: The next step.
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
        case .deriving:
            return whileDeriving(stanza)
        case .resuming(let offers, let suspended):
            return resumption(stanza, offers, suspended)
        case .binding(let offers):
            return bindResult(stanza, offers)
        case .idle, .awaitingHeader, .startingTLS, .finished:
            return .none
        }
    }

    /// Handles the peer's closing of its stream.
    ///
    /// - Returns: The error to report; nil if one was reported already.
    package mutating func closed() -> NegotiationError? {
        end(.closed, "the server closed the stream \(moment)")
    }

    /// Handles the loss of the transport.
    ///
    /// - Returns: The error to report; nil if one was reported already.
    package mutating func transportClosed() -> NegotiationError? {
        end(.closed, "the connection was closed \(moment)")
    }

    /// Handles the end of the time for negotiation.
    ///
    /// - Returns: The error to report; nil if the negotiation is over.
    package mutating func timedOut() -> NegotiationError? {
        end(.timedOut, "no answer in time \(moment)")
    }

    private mutating func end(_ code: NegotiationError.Code, _ message: String) -> NegotiationError? {
        if case .finished = state { return nil }
        return finish(NegotiationError(code, message))
    }

    /// Ends the negotiation for this reason.
    mutating func finish(_ error: NegotiationError) -> NegotiationError {
        state = .finished
        return error
    }

    /// The current step, for messages.
    private var moment: String {
        switch state {
        case .idle: "before the stream began"
        case .awaitingHeader(.plain), .awaitingFeatures(.plain): "before STARTTLS: is this port for direct TLS?"
        case .awaitingHeader(.secured), .awaitingFeatures(.secured): "before authentication"
        case .awaitingHeader(.authenticated), .awaitingFeatures(.authenticated): "after authentication"
        case .awaitingProceed, .startingTLS: "during STARTTLS"
        case .authenticating, .deriving: "during authentication"
        case .resuming: "during resumption"
        case .binding: "during resource binding"
        case .finished: "after negotiation"
        }
    }
}
