package import Vocabulary

/// A decoded top-level stanza: one case for each value of `upstream_stanzas_received_total{kind}`, except that
/// ``message(_:)`` and ``messages(_:)`` cover `upstream`, `receipt` and `malformed`, and count as `archive` too if they are
/// from there.
package enum DecodedStanza: Sendable {
    /// Something to store: a message, a receipt, or a copy for `quarantine`.
    case message(IncomingMessage)
    /// The messages of one stanza, in their order: an event's items.
    case messages([IncomingMessage])
    /// An ack for something we sent. Never acked.
    case ack
    /// A nack for something we sent, or an announcement of draining. Never acked.
    case nack(NackCode)
    /// A message about the connection. Never acked.
    case control(ControlType)
    /// A stanza of `type="error"`, whatever it echoes. Never acked, never read as a message.
    case error(StanzaError)
    /// A payload from somebody who is not trusted to speak for the CCS. Neither stored nor acked.
    case untrusted
    /// A result of our archive that holds nothing to store, by whoever its message is.
    case archived
    /// Anything else: a message without payload, presence, unknown elements.
    case other

    /// Whether it announces that the peer will close the connection, so that a new one should be opened at once.
    package var announcesDraining: Bool {
        switch self {
        case .nack(let code): code == .connectionDraining
        case .control(let type): type == .connectionDraining
        default: false
        }
    }
}

/// The `error` of a nack: the codes of the FCM reference, table 4.
package enum NackCode: String, Sendable, CaseIterable {
    case invalidJSON = "INVALID_JSON"
    case badRegistration = "BAD_REGISTRATION"
    case deviceUnregistered = "DEVICE_UNREGISTERED"
    case senderIDMismatch = "SENDER_ID_MISMATCH"
    case badAck = "BAD_ACK"
    case serviceUnavailable = "SERVICE_UNAVAILABLE"
    case internalServerError = "INTERNAL_SERVER_ERROR"
    case deviceMessageRateExceeded = "DEVICE_MESSAGE_RATE_EXCEEDED"
    case topicsMessageRateExceeded = "TOPICS_MESSAGE_RATE_EXCEEDED"
    case connectionDraining = "CONNECTION_DRAINING"
    case invalidAPNSCredential = "INVALID_APNS_CREDENTIAL"
    case authenticationFailed = "AUTHENTICATION_FAILED"
    case unknown = "unknown"
}

/// The `control_type` of a control message.
package enum ControlType: String, Sendable, CaseIterable {
    case connectionDraining = "CONNECTION_DRAINING"
    case unknown = "unknown"
}
