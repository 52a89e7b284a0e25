/// What went wrong with a TLS connection or with what was to be used for it.
///
/// Texts name the cause and, where there is one, the fix. They hold names from certificates and configuration, never key
/// material and nothing of what was sent over the connection.
package struct TLSError: Error, Sendable, CustomStringConvertible {
    /// The kinds of failure, a closed set.
    package enum Code: Sendable, Hashable {
        /// The certificate is valid but for another name or address (RFC 9525).
        case hostnameMismatch
        /// The certificate's validity has ended.
        case expired
        /// The certificate's validity has not begun.
        case notYetValid
        /// The chain ends at an authority that is not trusted here, or is otherwise not acceptable.
        case untrusted
        /// The peer's certificate is signed with its own key and not trusted here.
        case selfSigned
        /// No protocol version in common.
        case protocolVersion
        /// The peer's first bytes are no TLS record.
        case plaintextPeer
        /// The handshake was not finished in time.
        case handshakeTimeout
        /// The connection ended without the peer's close_notify: what was received may be incomplete.
        case truncated
        /// The handshake failed for another reason, or the peer ended the connection in its middle.
        case handshakeFailed
        /// The peer sent a fatal alert (its number in RFC 8446 §6).
        case alertReceived(UInt8)
        /// After the handshake: a record that can't be authenticated, or a message that has no place there.
        case protocolViolation
        /// The transport failed (reset, time-out).
        case io
        /// More was written before the end of the handshake than is buffered.
        case pendingWriteOverflow
        /// The certificate, key, authority file or name that was configured can't be used.
        case misconfigured
        /// OpenSSL could not allocate or initialise something.
        case internalFailure
    }

    /// The kind of failure.
    package var code: Code
    /// The cause and the fix, for an operator.
    package var message: String
    /// What the transport reported, for ``Code/io``.
    package var underlying: (any Error)?

    package init(_ code: Code, _ message: String, underlying: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.underlying = underlying
    }

    /// A label value fit for a metric: from a closed set, lower case with underscores.
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
