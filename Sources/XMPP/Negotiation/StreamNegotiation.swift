package import XMLWire

/// A negotiation from a connected transport to a bound stream: a client's, or a component's.
package protocol StreamNegotiation: ~Copyable {
    /// See ``Negotiation/connected(_:)``.
    mutating func connected(_ mode: NegotiationConfiguration.TLSMode)
    /// See ``Negotiation/transportReady(encrypted:bindings:)``.
    mutating func transportReady(encrypted: Bool, bindings: [ChannelBinding]) -> Negotiation.ReadyAction
    /// See ``Negotiation/opened(_:)``.
    mutating func opened(_ stream: Stanza) -> Negotiation.OpenedAction
    /// See ``Negotiation/stanza(_:trailingBytes:)``.
    mutating func stanza(_ stanza: Stanza, trailingBytes: Int) -> Negotiation.StanzaAction
    /// See ``Negotiation/derived(_:)``.
    mutating func derived(_ key: Secret) -> Negotiation.StanzaAction
    /// See ``Negotiation/closed()``.
    mutating func closed() -> NegotiationError?
    /// See ``Negotiation/transportClosed()``.
    mutating func transportClosed() -> NegotiationError?
    /// See ``Negotiation/timedOut()``.
    mutating func timedOut() -> NegotiationError?
    /// The chosen way to sign in; nil before that is decided, and without SASL.
    var signIn: SignIn? { get }
}

extension StreamNegotiation where Self: ~Copyable {
    package mutating func connected(_ mode: NegotiationConfiguration.TLSMode) {}
    package mutating func derived(_ key: Secret) -> Negotiation.StanzaAction { .none }
    package var signIn: SignIn? { nil }
}
