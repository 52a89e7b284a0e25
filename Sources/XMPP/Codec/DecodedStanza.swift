package import Vocabulary

/// A decoded top-level stanza.
///
/// One case for each value of `upstream_stanzas_received_total{kind}`; ``message(_:)`` covers `upstream`, `receipt` and
/// `malformed`, which ``UpstreamKit/IncomingMessage/kind`` tells apart.
package enum DecodedStanza: Sendable {
    /// Something to store: a message, a receipt, or a copy for `quarantine`.
    case message(IncomingMessage)
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
    /// The JSON we sent was refused.
    case invalidJSON = "INVALID_JSON"
    /// The registration token is unknown or belongs to another sender.
    case badRegistration = "BAD_REGISTRATION"
    /// The app is no longer installed or registered.
    case deviceUnregistered = "DEVICE_UNREGISTERED"
    /// The token belongs to another sender.
    case senderIDMismatch = "SENDER_ID_MISMATCH"
    case badAck = "BAD_ACK"
    /// The peer is overloaded.
    case serviceUnavailable = "SERVICE_UNAVAILABLE"
    /// The peer failed.
    case internalServerError = "INTERNAL_SERVER_ERROR"
    /// Too many messages for one device.
    case deviceMessageRateExceeded = "DEVICE_MESSAGE_RATE_EXCEEDED"
    /// Too many messages for one topic.
    case topicsMessageRateExceeded = "TOPICS_MESSAGE_RATE_EXCEEDED"
    /// The peer is about to close the connection.
    case connectionDraining = "CONNECTION_DRAINING"
    /// An APNs credential is missing or wrong.
    case invalidAPNSCredential = "INVALID_APNS_CREDENTIAL"
    /// The sender could not be authenticated.
    case authenticationFailed = "AUTHENTICATION_FAILED"
    /// Any other text, or none.
    case unknown = "unknown"
}

/// The `control_type` of a control message.
package enum ControlType: String, Sendable, CaseIterable {
    case connectionDraining = "CONNECTION_DRAINING"
    /// Any other text, or none.
    case unknown = "unknown"
}
