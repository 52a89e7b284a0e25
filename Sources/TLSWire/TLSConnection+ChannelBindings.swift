import COpenSSL
import Vocabulary

extension TLSConnection {
    /// The bindings of an established connection, without the types that it lacks.
    var channelBindings: [ChannelBinding] {
        let values: [(ChannelBinding.Kind, [UInt8]?)] = [
            (.exporter, self.exporter), (.unique, self.firstFinished), (.endPoint, self.serverCertificateHash),
        ]
        return values.compactMap { kind, data in data.map { ChannelBinding(kind, data: $0) } }
    }

    private var hasTLS13: Bool { SSL_version(self.ssl) >= TLSVersion.v1_3.rawValue }

    /// 32 bytes of keying material (RFC 9266 section 2).
    ///
    /// Below TLS 1.3 only if the master secret covers the whole handshake (RFC 7627): else a man in the middle can give
    /// both of his connections the same one.
    private var exporter: [UInt8]? {
        guard self.hasTLS13 || upstream_ssl_extended_master_secret(self.ssl) == 1 else { return nil }
        let label = "EXPORTER-Channel-Binding"
        var context: UInt8 = 0
        var material = [UInt8](repeating: 0, count: 32)
        ERR_clear_error()
        // All borrowed for the call. The context is present and empty, which before TLS 1.3 differs from none.
        let count = material.count
        let result = SSL_export_keying_material(self.ssl, &material, count, label, label.utf8.count, &context, 0, 1)
        return result == 1 ? material : nil
    }

    /// The Finished message of the client, which sends the first one of a full handshake (RFC 5929 section 3.1).
    ///
    /// TLS 1.3 does not define it (RFC 9266 section 3). The triple handshake attack on it needs a resumed session or a
    /// repeated handshake, and neither is ever done here.
    private var firstFinished: [UInt8]? {
        guard !self.hasTLS13, SSL_session_reused(self.ssl) == 0 else { return nil }
        var message = [UInt8](repeating: 0, count: 64)
        // Copies at most what there is room for and returns the message's length.
        let length =
            self.isClient
            ? SSL_get_finished(self.ssl, &message, message.count)
            : SSL_get_peer_finished(self.ssl, &message, message.count)
        return (12...message.count).contains(length) ? Array(message.prefix(length)) : nil
    }

    /// The hash of the server's certificate, by the hash function of the certificate's signature, or SHA-256 if that is
    /// MD5 or SHA-1 (RFC 5929 section 4.1).
    ///
    /// Nil for a signature without a single hash function, such as Ed25519: the type is not defined for it.
    private var serverCertificateHash: [UInt8]? {
        // In both cases we own a reference and free it below.
        guard let certificate = self.isClient ? SSL_get1_peer_certificate(self.ssl) : SSL_get_certificate(self.ssl)
        else { return nil }
        if !self.isClient { X509_up_ref(certificate) }
        defer { X509_free(certificate) }
        ERR_clear_error()
        defer { ERR_clear_error() }
        var kind: Int32 = 0
        guard X509_get_signature_info(certificate, &kind, nil, nil, nil) == 1, kind != NID_undef else { return nil }
        let name = [NID_md5, NID_sha1].contains(kind) ? NID_sha256 : kind
        // Static, never freed.
        guard let algorithm = EVP_get_digestbyname(OBJ_nid2sn(name)) else { return nil }
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var length: UInt32 = 0
        guard X509_digest(certificate, algorithm, &digest, &length) == 1 else { return nil }
        return Array(digest.prefix(Int(length)))
    }
}
