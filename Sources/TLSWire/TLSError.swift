/// A failure of a TLS connection or of its configuration.
///
/// Texts name the cause and, if there is one, the fix. They hold names from certificates and configuration, never key
/// material or data of the connection.
package struct TLSError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable, Hashable {
        /// The certificate is valid, but for another name or address (RFC 9525).
        case hostnameMismatch
        case expired
        case notYetValid
        /// The chain ends at an authority that is not trusted here, or is otherwise unacceptable.
        case untrusted
        /// The peer's certificate is self-signed and not trusted here.
        case selfSigned
        case protocolVersion
        /// The peer's first bytes are not a TLS record.
        case plaintextPeer
        case handshakeTimeout
        /// The connection ended without the peer's close_notify: received data may be incomplete.
        case truncated
        /// The handshake failed for another reason, or the peer closed the connection during it.
        case handshakeFailed
        /// The peer sent a fatal alert (its number in RFC 8446 §6).
        case alertReceived(UInt8)
        /// After the handshake: a record failed authentication, or a message was out of place.
        case protocolViolation
        /// The transport failed (reset, time-out).
        case io
        /// More was written before the end of the handshake than is buffered.
        case pendingWriteOverflow
        /// The configured certificate, key, authority file or name can't be used.
        case misconfigured
        /// OpenSSL could not allocate or initialise something.
        case internalFailure
    }

    package var code: Code
    /// The cause and the fix, for an operator.
    package var message: String
    /// The transport's error, for ``Code/io``.
    package var underlying: (any Error)?

    package init(_ code: Code, _ message: String, underlying: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.underlying = underlying
    }

    /// A metric label's value: from a closed set, lower case with underscores.
    package var shortDescription: String {
        switch self.code {
        case .hostnameMismatch: "tls_hostname_mismatch"
        case .expired: "tls_expired"
        case .notYetValid: "tls_not_yet_valid"
        case .untrusted: "tls_untrusted"
        case .selfSigned: "tls_self_signed"
        case .protocolVersion: "tls_protocol_version"
        case .plaintextPeer: "tls_plaintext_peer"
        case .handshakeTimeout: "tls_handshake_timeout"
        case .truncated: "tls_truncated"
        case .handshakeFailed: "tls_handshake_failed"
        case .alertReceived: "tls_alert_received"
        case .protocolViolation: "tls_protocol_violation"
        case .io: "tls_io"
        case .pendingWriteOverflow: "tls_pending_write_overflow"
        case .misconfigured: "tls_misconfigured"
        case .internalFailure: "tls_internal"
        }
    }

    /// The short description and the message.
    package var description: String {
        if let underlying = self.underlying {
            "\(self.shortDescription): \(self.message) (\(underlying))"
        } else {
            "\(self.shortDescription): \(self.message)"
        }
    }
}
