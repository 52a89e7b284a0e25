package import Vocabulary

/// A label with a closed set of values; the raw value is the text in Prometheus.
package protocol MetricLabel: RawRepresentable<String>, CaseIterable, Hashable, Sendable {}

extension MetricLabel {
    /// The value's place among all, read from the enumeration's memory to avoid a look-up.
    package var index: Int { withUnsafeBytes(of: self) { Int($0[0]) } }
}

extension DatabaseErrorClass: MetricLabel {}
/// The outcome of an attempt (`upstream_deliveries_total{outcome}`).
extension AttemptOutcome: MetricLabel {}

/// The outcome of a received copy (`upstream_messages_total{outcome}`).
extension StoreOutcome: MetricLabel {}
/// The kind of a received copy (`upstream_stanzas_received_total{kind}`).
extension IncomingMessage.Kind: MetricLabel {}

/// A connection's state (`upstream_xmpp_connections{state}`).
package enum ConnectionState: String, MetricLabel {
    /// Opening: TCP, TLS, SASL, bind.
    case connecting
    case bound
    /// Draining: still receiving and acking while its replacement is opened.
    case draining
}

/// The kind of a stanza that ``MessageAccounts`` doesn't count (`upstream_stanzas_received_total{kind}`).
package enum StanzaLabel: String, MetricLabel {
    /// The server's ack of our message.
    case ack
    case nack
    /// A control message, for example CONNECTION_DRAINING.
    case control
    case error
    /// A message whose stanza `from` is not a trusted address.
    case untrusted
    /// A result of our archive; a message in it counts by its own kind as well.
    case archive
    /// Everything else: presence, iq, unknown stanzas, messages without `gcm`.
    case other
}

/// The outcome of an ack (`upstream_acks_total{outcome}`).
package enum AckOutcome: String, MetricLabel {
    /// Written to the connection that delivered the message.
    case sent
    /// Dropped: that connection is gone, and the redelivery will be acked instead.
    case connectionGone = "connection_gone"
    /// Not written: it would exceed the server's limit.
    case tooLarge = "too_large"
}

/// Why a connection is opened again (`upstream_reconnects_total{reason}`).
package enum ReconnectReason: String, MetricLabel {
    /// The server closed the stream properly.
    case streamClosed = "stream_closed"
    /// The server asked to drain the connection.
    case draining
    /// TCP: no address, refused, timed out.
    case connectFailed = "connect_failed"
    case tlsFailed = "tls_failed"
    case authenticationFailed = "authentication_failed"
    /// Another failure of negotiation: no bind, no STARTTLS, a step that timed out.
    case negotiationFailed = "negotiation_failed"
    /// The server ended the stream with an error.
    case streamError = "stream_error"
    /// The stream broke a rule: invalid XML, or over a limit.
    case policyViolation = "policy_violation"
    /// The peer answered no ping, or accepted none of our data.
    case pingTimeout = "ping_timeout"
    case connectionLost = "connection_lost"
}

/// The state of a handler's circuit breaker (`upstream_handler_circuit{state}`).
package enum CircuitState: String, MetricLabel {
    /// Attempts run.
    case closed
    /// No attempt runs until a set time.
    case open
    /// A probe may begin, or is under way.
    case halfOpen = "half_open"
}

/// The outcome of a recorded span (`upstream_trace_spans_total{outcome}`).
package enum SpanOutcome: String, MetricLabel {
    /// The collector accepted it.
    case exported
    /// Dropped, since too many waited.
    case dropped
    /// Given up: the collector refused it, or was away for too long.
    case failed
}

/// The owner of a certificate (`upstream_certificate_end_timestamp_seconds{certificate}`).
package enum CertificateKind: String, MetricLabel {
    /// A sender's server.
    case server
    /// Ours, shown to a sender's server.
    case client
    /// A webhook's server.
    case webhook
    /// Ours, shown to a webhook's server.
    case webhookClient = "webhook_client"
    case console
}
