import COpenSSL
import NIOCore

/// A connection's SSL object: ciphertext in, plaintext out, and the reverse; confined to its event loop.
final class TLSConnection {
    struct Received {
        var completedHandshake = false
        var plaintext: ByteBuffer?
        /// What follows the plaintext.
        var end = End.more
    }

    // After a failure, the output may hold an alert.

    enum End {
        case more, closeNotify
        case failed(TLSError)
    }

    enum HandshakeStep {
        /// The peer must answer first.
        case incomplete
        /// Done, and the peer is verified.
        case complete
        case failed(TLSError)
    }

    enum WriteStep {
        case wrote(Int)
        /// Nothing can be written until the peer has sent the rest of a handshake message.
        case blocked
        case failed(TLSError)
    }

    /// The largest plaintext of one record (RFC 8446 §5.1).
    static let maximumRecord = 16_384
    /// The most that a record adds to its plaintext: header, explicit nonce, content type, tag.
    static let recordOverhead = 5 + 8 + 1 + 16

    /// Retained for the callbacks whose arguments it owns.
    let context: TLSContext
    /// We own the SSL and free it in deinit, together with its BIO.
    let ssl: OpaquePointer
    private let transport: CiphertextBIO

    init(_ context: TLSContext) throws(TLSError) {
        ERR_clear_error()
        guard let ssl = SSL_new(context.handle) else { throw .internalFailure("a TLS connection") }
        self.context = context
        self.ssl = ssl
        self.transport = CiphertextBIO()
        // One BIO for both directions: SSL_set_bio takes over our single reference.
        let bio = try self.transport.makeBIO()
        SSL_set_bio(ssl, bio, bio)
        if let expected = context.expected {
            try expected.apply(to: ssl)
            self.transport.xmppNames = context.xmppNames
            SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(self.transport).toOpaque())
            SSL_set_verify(ssl, SSL_VERIFY_PEER, Self.noteRefusedCertificate)
            SSL_set_connect_state(ssl)
        } else {
            SSL_set_verify(ssl, SSL_VERIFY_NONE, nil)
            SSL_set_accept_state(ssl)
        }
    }

    deinit { SSL_free(self.ssl) }

    /// Whether this side verifies the other.
    var isClient: Bool { self.context.expected != nil }

    /// The event that announces the connection.
    var summary: TLSEvent {
        // Both are static strings of OpenSSL.
        let cipher = SSL_get_current_cipher(self.ssl).flatMap(SSL_CIPHER_standard_name).map { String(cString: $0) }
        return .established(version: String(cString: SSL_get_version(self.ssl)), cipher: cipher ?? "unknown")
    }

    /// The seconds until the peer's certificate expires; nil if it has shown none.
    var peerCertificateEnd: Int? {
        // Stays the connection's.
        SSL_get0_peer_certificate(self.ssl).flatMap(CertificateEnd.remaining)
    }

    /// Continues the handshake until it needs more from the peer.
    func handshake() -> HandshakeStep {
        ERR_clear_error()
        let result = SSL_do_handshake(self.ssl)
        if result == 1 {
            // The peer is verified, and no session is resumed: nothing needs its certificate chain any more.
            upstream_ssl_forget_chains(self.ssl)
            return .complete
        }
        if SSL_get_error(self.ssl, result) == SSL_ERROR_WANT_READ { return .incomplete }
        let failure = OpenSSLFailure.take()
        if let expected = self.context.expected, let refused = self.transport.verificationFailure {
            return .failed(refused.error(serverName: expected.name, self.context.section))
        }
        return .failed(.handshake(failure, isClient: self.isClient))
    }

    /// Feeds ciphertext and returns everything it holds.
    func receive(_ ciphertext: ByteBuffer, handshaking: Bool, allocator: ByteBufferAllocator) -> Received {
        self.transport.lend(ciphertext) {
            var received = Received()
            if handshaking {
                switch self.handshake() {
                case .incomplete: return received
                case .complete: received.completedHandshake = true
                case .failed(let error):
                    received.end = .failed(error)
                    return received
                }
            }
            var plaintext = allocator.buffer(capacity: ciphertext.readableBytes)
            received.end = self.decrypt(into: &plaintext)
            received.plaintext = plaintext.readableBytes > 0 ? plaintext : nil
            return received
        }
    }

    private func decrypt(into plaintext: inout ByteBuffer) -> End {
        // Plaintext is never longer than its ciphertext; more room is needed only for a record begun in earlier pieces.
        var end: End?
        while end == nil {
            let room = max(plaintext.writableBytes, Int(SSL_pending(self.ssl)), 1)
            plaintext.writeWithUnsafeMutableBytes(minimumWritableBytes: room) { target in
                var filled = 0
                while filled < target.count, let base = target.baseAddress {
                    var count = 0
                    ERR_clear_error()
                    let result = SSL_read_ex(self.ssl, base + filled, target.count - filled, &count)
                    guard result == 1 else {
                        end = self.endOfReading(result)
                        break
                    }
                    filled += count
                }
                return filled
            }
        }
        return end ?? .more
    }

    private func endOfReading(_ result: Int32) -> End {
        switch SSL_get_error(self.ssl, result) {
        case SSL_ERROR_WANT_READ: .more
        case SSL_ERROR_ZERO_RETURN: .closeNotify
        default: .failed(.established(OpenSSLFailure.take(), isClient: self.isClient))
        }
    }

    /// Reserves room for the ciphertext of this much plaintext.
    func reserveOutput(plaintext count: Int) {
        let records = count / Self.maximumRecord + 1
        self.transport.reserveOutput(count + records * Self.recordOverhead)
    }

    func write(_ bytes: UnsafeRawBufferPointer) -> WriteStep {
        var count = 0
        ERR_clear_error()
        let result = SSL_write_ex(self.ssl, bytes.baseAddress, min(bytes.count, Self.maximumRecord), &count)
        if result == 1 { return .wrote(count) }
        if SSL_get_error(self.ssl, result) == SSL_ERROR_WANT_READ { return .blocked }
        return .failed(.established(OpenSSLFailure.take(), isClient: self.isClient))
    }

    /// Writes close_notify to the output, once.
    func sendCloseNotify() {
        ERR_clear_error()
        // Fails only in the middle of a post-handshake message; the peer then sees the connection end without it.
        _ = SSL_shutdown(self.ssl)
        ERR_clear_error()
    }

    func takeOutput() -> ByteBuffer? { self.transport.takeOutput() }

    var outputBytes: Int { self.transport.output.readableBytes }

    /// Records why OpenSSL refuses a certificate, unless its names match in ways that OpenSSL does not compare.
    private static let noteRefusedCertificate: SSL_verify_cb = { accepted, store in
        guard accepted == 0, let store else { return accepted }
        let ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx())
        guard let ssl, let transport = SSL_get_ex_data(OpaquePointer(ssl), 0) else { return 0 }
        return Unmanaged<CiphertextBIO>.fromOpaque(transport)._withUnsafeGuaranteedRef {
            // No DNS name matches: the names that OpenSSL does not know decide.
            if X509_STORE_CTX_get_error(store) == X509_V_ERR_HOSTNAME_MISMATCH, let names = $0.xmppNames,
                let certificate = X509_STORE_CTX_get0_cert(store), names.match(certificate)
            {
                X509_STORE_CTX_set_error(store, X509_V_OK)
                return 1
            }
            $0.verificationFailure = VerificationFailure(store)
            return 0
        }
    }
}
