import COpenSSL

extension TLSConnection {
    /// The event that announces the connection.
    var summary: TLSEvent {
        // Version and suite are static strings of OpenSSL; the protocol stays the SSL's.
        let version = String(cString: SSL_get_version(self.ssl))
        let cipher = SSL_get_current_cipher(self.ssl).flatMap(SSL_CIPHER_standard_name).map { String(cString: $0) }
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(self.ssl, &name, &length)
        let alpn = UnsafeBufferPointer(start: name, count: Int(length))
        return .established(
            version: version,
            cipher: cipher ?? "unknown",
            alpn: alpn.isEmpty ? nil : String(decoding: alpn, as: UTF8.self)
        )
    }

    /// Keying material bound to this connection (RFC 5705, RFC 8446 §7.5).
    func exportKeyingMaterial(label: String, context: [UInt8]?, length: Int) throws(TLSError) -> [UInt8] {
        guard SSL_is_init_finished(self.ssl) == 1 else {
            throw TLSError(.internalFailure, "keying material is to be had only on an established connection")
        }
        var material = [UInt8](repeating: 0, count: max(length, 0))
        ERR_clear_error()
        let result = SSL_export_keying_material(
            self.ssl,
            &material,
            material.count,
            label,
            label.utf8.count,
            context ?? [],
            context?.count ?? 0,
            context == nil ? 0 : 1
        )
        guard result == 1 else { throw .internalFailure("keying material") }
        return material
    }

    /// The digest of the server's certificate, the `tls-server-end-point` channel binding (RFC 5929 §4.1).
    func serverEndPoint() throws(TLSError) -> [UInt8] {
        ERR_clear_error()
        // On a client a reference of its own; on a server the SSL keeps the certificate.
        let certificate = self.isClient ? SSL_get1_peer_certificate(self.ssl) : SSL_get_certificate(self.ssl)
        guard let certificate else {
            throw TLSError(.internalFailure, "a certificate's digest is to be had only on an established connection")
        }
        defer { if self.isClient { X509_free(certificate) } }
        var digestID: Int32 = 0
        guard X509_get_signature_info(certificate, &digestID, nil, nil, nil) == 1 else {
            throw .internalFailure("the digest of a certificate")
        }
        // MD5 and SHA-1 are replaced by SHA-256; a signature without a digest (Ed25519) has no binding of this type.
        let name = [NID_md5, NID_sha1].contains(digestID) ? SN_sha256 : String(cString: OBJ_nid2sn(digestID))
        guard digestID != NID_undef, let digest = EVP_get_digestbyname(name) else {
            throw TLSError(.internalFailure, "the certificate's signature has no digest to bind with")
        }
        var value = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var length: UInt32 = 0
        guard X509_digest(certificate, digest, &value, &length) == 1 else {
            throw .internalFailure("the digest of a certificate")
        }
        return Array(value.prefix(Int(length)))
    }
}
