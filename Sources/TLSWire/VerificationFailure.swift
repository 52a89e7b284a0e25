import COpenSSL

/// Why a certificate was refused; recorded during verification, since OpenSSL keeps no refused certificate.
struct VerificationFailure {
    /// `X509_V_ERR_*`.
    var code: Int32
    /// 0 for the peer's own certificate, 1 for its issuer, and so on.
    var depth: Int32
    var subject = ""
    var issuer = ""
    var names = ""
    var notBefore = ""
    var notAfter = ""

    /// Reads the failure from a verification in progress.
    init(_ store: OpaquePointer) {
        self.code = X509_STORE_CTX_get_error(store)
        self.depth = X509_STORE_CTX_get_error_depth(store)
        // The certificate stays the store context's.
        guard let certificate = X509_STORE_CTX_get_current_cert(store) else { return }
        self.subject = printableText { _ = upstream_x509_name_print($0, X509_get_subject_name(certificate)) }
        self.issuer = printableText { _ = upstream_x509_name_print($0, X509_get_issuer_name(certificate)) }
        self.notBefore = printableText { ASN1_TIME_print($0, X509_get0_notBefore(certificate)) }
        self.notAfter = printableText { ASN1_TIME_print($0, X509_get0_notAfter(certificate)) }
        let position = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1)
        // The extension stays the certificate's.
        if position >= 0, let names = X509_get_ext(certificate, position) {
            self.names = printableText { X509V3_EXT_print($0, names, 0, 0) }
        }
        ERR_clear_error()
    }

    /// The error, which names keys of this section of the configuration.
    func error(serverName: String, _ section: String) -> TLSError {
        let whose =
            self.depth == 0
            ? "the certificate of \"\(serverName)\"" : "the authority \(self.subject) behind \"\(serverName)\""
        switch self.code {
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            let names = self.names.isEmpty ? "no name (only the subject \(self.subject))" : self.names
            return TLSError(
                .hostnameMismatch,
                "hostname mismatch: the certificate is for \(names), not for \"\(serverName)\": "
                    + "connect to a name it carries" + (section == "tls" ? ", or set tls.server_name to one" : "")
            )
        case X509_V_ERR_CERT_HAS_EXPIRED:
            return TLSError(
                .expired,
                "\(whose) expired on \(self.notAfter): renew it on the server, or check this machine's clock"
            )
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return TLSError(.notYetValid, "\(whose) is valid only from \(self.notBefore): check this machine's clock")
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
            return TLSError(
                .selfSigned,
                "\(whose) is self-signed and not trusted here: if it is the right one, name it in \(section).ca_file"
            )
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
            X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
            return TLSError(
                .untrusted,
                "\(whose) was issued by \(self.issuer), which is not trusted here: "
                    + "name the issuing authority in \(section).ca_file, and let the server send its intermediates"
            )
        case X509_V_ERR_CERT_SIGNATURE_FAILURE, X509_V_ERR_AKID_SKID_MISMATCH, X509_V_ERR_AKID_ISSUER_SERIAL_MISMATCH:
            return TLSError(
                .untrusted,
                "\(whose) names \(self.issuer) as its issuer, but the authority of that name that is trusted here did "
                    + "not issue it: put the certificate of the one that did into \(section).ca_file (was the authority made "
                    + "anew?)"
            )
        default:
            // Static text of OpenSSL.
            let reason = String(cString: X509_verify_cert_error_string(Int(self.code)))
            return TLSError(.untrusted, "\(whose) was refused: \(reason)")
        }
    }
}

extension TLSError {
    /// The error of a failed handshake, from OpenSSL's queue.
    static func handshake(_ failure: OpenSSLFailure?, isClient: Bool) -> TLSError {
        guard let failure else {
            return TLSError(.handshakeFailed, "the TLS handshake failed, OpenSSL gives no reason")
        }
        if let alert = failure.alert { return self.alert(alert, text: failure.text, isClient: isClient) }
        let versionReasons = [
            SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_WRONG_SSL_VERSION, SSL_R_VERSION_TOO_LOW, SSL_R_NO_PROTOCOLS_AVAILABLE,
            SSL_R_VERSION_TOO_HIGH,
        ]
        if failure.library == ERR_LIB_SSL, versionReasons.contains(failure.reason) {
            return self.versionMismatch(isClient: isClient)
        }
        return TLSError(.handshakeFailed, "the TLS handshake failed: \(failure.text)")
    }

    /// The error of a broken connection after the handshake, from OpenSSL's queue.
    static func established(_ failure: OpenSSLFailure?, isClient: Bool) -> TLSError {
        if let failure, let alert = failure.alert {
            return self.alert(alert, text: failure.text, isClient: isClient)
        }
        return TLSError(.protocolViolation, "the TLS connection broke: \(failure?.text ?? "no reason given")")
    }

    private static func alert(_ number: UInt8, text: String, isClient: Bool) -> TLSError {
        if number == UInt8(TLS1_AD_PROTOCOL_VERSION) { return self.versionMismatch(isClient: isClient) }
        let fix =
            number == UInt8(SSL3_AD_HANDSHAKE_FAILURE) ? ": the two sides share no cipher suite or parameters" : ""
        return TLSError(.alertReceived, "the peer ended TLS with an alert: \(text)\(fix)")
    }

    private static func versionMismatch(isClient: Bool) -> TLSError {
        TLSError(
            .protocolVersion,
            isClient
                ? "the server speaks no TLS version that is accepted here: it must offer TLS 1.2 or 1.3"
                : "the client and this server share no TLS version"
        )
    }
}

extension OpenSSLFailure {
    /// The number of the peer's fatal alert, if it is one.
    var alert: UInt8? {
        // SSL_AD_REASON_OFFSET separates the alerts among the reasons of the library.
        self.library == ERR_LIB_SSL ? UInt8(exactly: self.reason - SSL_AD_REASON_OFFSET) : nil
    }
}
