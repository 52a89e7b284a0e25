/// A failure of a TLS connection or of its configuration.
///
/// Texts name the cause and, if there is one, the fix. They hold names, never keys or data of the connection.
package struct TLSError: Error, Sendable, CustomStringConvertible {
    package enum Code: String, Sendable {
        /// The certificate is valid, but for another name or address (RFC 9525).
        case hostnameMismatch = "hostname_mismatch"
        case expired
        case notYetValid = "not_yet_valid"
        /// The chain ends at an authority that is not trusted here, or is otherwise unacceptable.
        case untrusted
        case selfSigned = "self_signed"
        case protocolVersion = "protocol_version"
        /// The peer's first bytes are not a TLS record.
        case plaintextPeer = "plaintext_peer"
        case handshakeTimeout = "handshake_timeout"
        /// The connection ended without the peer's close_notify: received data may be incomplete.
        case truncated
        /// The handshake failed for another reason, or the peer closed the connection during it.
        case handshakeFailed = "handshake_failed"
        /// The peer sent a fatal alert (RFC 8446 §6).
        case alertReceived = "alert_received"
        /// After the handshake: a record failed authentication, or a message was out of place.
        case protocolViolation = "protocol_violation"
        /// The transport failed (reset, time-out).
        case io
        /// More was written before the end of the handshake than is buffered.
        case pendingWriteOverflow = "pending_write_overflow"
        /// The configured certificate, key, authority file or name can't be used.
        case misconfigured
        /// OpenSSL could not allocate or initialise something.
        case internalFailure = "internal"
    }

    package let code: Code
    /// The cause and the fix, for an operator.
    package let message: String
    /// The transport's error, for ``Code/io``.
    package let underlying: (any Error)?

    init(_ code: Code, _ message: String, underlying: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.underlying = underlying
    }

    /// Whether the connection broke, which says nothing about certificates and settings: the next one may work.
    package var isOfConnection: Bool { [.truncated, .io, .protocolViolation].contains(code) }

    /// A metric label's value: from a closed set, lower case with underscores.
    package var shortDescription: String { "tls_" + code.rawValue }

    package var description: String {
        "\(shortDescription): \(message)" + (underlying.map { " (\($0))" } ?? "")
    }
}

// Ends of the transport that the peer has not announced.
extension TLSError {
    static let unfinishedHandshake =
        TLSError(.handshakeFailed, "the peer closed the connection during the TLS handshake")
    static let noHandshake = TLSError(
        .handshakeFailed,
        "the peer closed the connection before it sent any TLS: check that the port speaks TLS"
    )
    static let truncated = TLSError(
        .truncated,
        "the connection ended without TLS close_notify: what was received may be incomplete"
    )
}

/// Recognises TLS by a peer's first bytes.
enum TLSProbe {
    /// Whether the first bytes begin a TLS record, as far as they go (RFC 8446 §5.1).
    ///
    /// The content types are 20 to 23, none of which can begin an XML document. The second byte is the major version,
    /// which is 3 in every version of the protocol.
    static func looksLikeTLSRecord(_ first: some Sequence<UInt8>) -> Bool {
        var iterator = first.makeIterator()
        guard let type = iterator.next(), (20...23).contains(type) else { return false }
        return (iterator.next() ?? 3) == 3
    }

    /// The error for a peer whose first bytes are not a TLS record.
    static func plaintextPeer(first: some Sequence<UInt8>) -> TLSError {
        let bytes = Array(first.prefix(5))
        let text =
            if bytes.first == UInt8(ascii: "<") {
                "it sent XML: this port begins in plaintext, set tls.mode: starttls"
            } else if bytes.starts(with: "HTTP".utf8) {
                "it speaks plaintext HTTP: check host and port"
            } else if bytes.starts(with: "SSH-".utf8) {
                "it is an SSH server: check host and port"
            } else {
                "check the port, or set tls.mode: starttls if the server begins in plaintext"
            }
        return TLSError(.plaintextPeer, "the peer does not speak TLS here; " + text)
    }
}
