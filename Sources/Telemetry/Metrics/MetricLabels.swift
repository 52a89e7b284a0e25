/// A label with a closed set of values, whose raw values count from 0, so that a family is an array.
package protocol MetricLabel: RawRepresentable<Int>, CaseIterable, Hashable, Sendable {
    /// The label's value in Prometheus.
    var text: String { get }
}

/// A connection's state (`upstream_xmpp_connections{state}`).
package enum ConnectionState: Int, MetricLabel {
    /// Opening: TCP, TLS, SASL, bind.
    case connecting
    case bound
    /// Draining: still receiving and acking while its replacement is opened.
    case draining

    package var text: String {
        switch self {
        case .connecting: "connecting"
        case .bound: "bound"
        case .draining: "draining"
        }
    }
}

/// The kind of a stanza that ``MessageAccounts`` doesn't count (`upstream_stanzas_received_total{kind}`).
package enum StanzaLabel: Int, MetricLabel {
    /// The server's ack of our message.
    case ack
    case nack
    /// A control message, for example CONNECTION_DRAINING.
    case control
    case error
    /// A message whose stanza `from` is not a trusted address.
    case untrusted
    /// Everything else: presence, iq, unknown stanzas, messages without `gcm`.
    case other

    package var text: String {
        switch self {
        case .ack: "ack"
        case .nack: "nack"
        case .control: "control"
        case .error: "error"
        case .untrusted: "untrusted"
        case .other: "other"
        }
    }
}

/// The kind of a received copy (`upstream_stanzas_received_total{kind}`).
package enum CopyKind: Int, MetricLabel {
    case upstream
    case receipt
    /// Quarantined without an ack.
    case malformed

    package var text: String {
        switch self {
        case .upstream: "upstream"
        case .receipt: "receipt"
        case .malformed: "malformed"
        }
    }
}

/// The outcome of a received copy (`upstream_messages_total{outcome}`).
package enum MessageOutcome: Int, MetricLabel {
    /// New, and in `messages`.
    case stored
    /// Known, with the same content.
    case duplicate
    /// Known, with other content.
    case conflict
    case quarantined

    package var text: String {
        switch self {
        case .stored: "stored"
        case .duplicate: "duplicate"
        case .conflict: "conflict"
        case .quarantined: "quarantined"
        }
    }
}

/// The outcome of an ack (`upstream_acks_total{outcome}`).
package enum AckOutcome: Int, MetricLabel {
    /// Written to the connection that delivered the message.
    case sent
    /// Dropped: that connection is gone, and the redelivery will be acked instead.
    case connectionGone
    /// Not written: it would exceed the server's limit.
    case tooLarge

    package var text: String {
        switch self {
        case .sent: "sent"
        case .connectionGone: "connection_gone"
        case .tooLarge: "too_large"
        }
    }
}

/// Why a connection is opened again (`upstream_reconnects_total{reason}`).
package enum ReconnectReason: Int, MetricLabel {
    /// The server closed the stream properly.
    case streamClosed
    /// The server asked to drain the connection.
    case draining
    /// TCP: no address, refused, timed out.
    case connectFailed
    case tlsFailed
    case authenticationFailed
    /// Another failure of negotiation: no bind, no STARTTLS, a step that timed out.
    case negotiationFailed
    /// The server ended the stream with an error.
    case streamError
    /// The stream broke a rule: invalid XML, or over a limit.
    case policyViolation
    /// The peer answered no ping, or accepted none of our data.
    case pingTimeout
    case connectionLost

    package var text: String {
        switch self {
        case .streamClosed: "stream_closed"
        case .draining: "draining"
        case .connectFailed: "connect_failed"
        case .tlsFailed: "tls_failed"
        case .authenticationFailed: "authentication_failed"
        case .negotiationFailed: "negotiation_failed"
        case .streamError: "stream_error"
        case .policyViolation: "policy_violation"
        case .pingTimeout: "ping_timeout"
        case .connectionLost: "connection_lost"
        }
    }
}

/// The outcome of an attempt (`upstream_deliveries_total{outcome}`).
package enum DeliveryOutcome: Int, MetricLabel {
    case done
    case retry
    /// The handler rejected the message for good.
    case rejected
    /// Dead-lettered after the last attempt.
    case exhausted
    /// Returned without counting an attempt: shutdown, or a lost lease.
    case released

    package var text: String {
        switch self {
        case .done: "done"
        case .retry: "retry"
        case .rejected: "rejected"
        case .exhausted: "exhausted"
        case .released: "released"
        }
    }
}

/// The state of a handler's circuit breaker (`upstream_handler_circuit{state}`).
package enum CircuitState: Int, MetricLabel {
    /// Attempts run.
    case closed
    /// No attempt runs until a set time.
    case open
    /// A probe may begin, or is under way.
    case halfOpen

    package var text: String {
        switch self {
        case .closed: "closed"
        case .open: "open"
        case .halfOpen: "half_open"
        }
    }
}
