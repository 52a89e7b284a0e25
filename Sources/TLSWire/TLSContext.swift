import COpenSSL
import NIOCore

/// The shared part of one kind of connections: trusted authorities, certificate, versions, limits.
///
/// Made once per sender or listener, since reading the authorities is the costly part. OpenSSL counts references to an
/// SSL_CTX atomically and does not change it after set-up, hence `@unchecked`.
package final class TLSContext: @unchecked Sendable {
    /// We own the SSL_CTX and free it in deinit.
    let handle: OpaquePointer
    /// The identity that a client expects; nil on a server, the side that verifies nobody.
    let expected: ReferenceIdentity?
    /// The protocol named by ALPN; nil for none.
    package private(set) var applicationProtocol: String?
    private(set) var section = "tls"
    private(set) var handshakeTimeout = TimeAmount.seconds(10)
    /// Bounds the wait for the peer's close_notify.
    private(set) var closeTimeout = TimeAmount.seconds(2)
    /// The names accepted in a server's certificate besides DNS names; nil for none.
    private(set) var xmppNames: XMPPCertificateNames?

    private init(expecting expected: ReferenceIdentity?) throws(TLSError) {
        ERR_clear_error()
        guard let handle = SSL_CTX_new(expected == nil ? TLS_server_method() : TLS_client_method()) else {
            throw .internalFailure("a TLS context")
        }
        self.handle = handle
        self.expected = expected
        SSL_CTX_set_options(
            handle,
            upstream_ssl_op_no_compression | upstream_ssl_op_no_renegotiation | upstream_ssl_op_no_ticket
                | upstream_ssl_op_server_preference
        )
        // Sessions are never resumed: connections are few and long, and tickets would cost memory on each.
        upstream_ssl_ctx_set_session_cache_mode(handle, Int(SSL_SESS_CACHE_OFF))
        SSL_CTX_set_num_tickets(handle, 0)
        // RELEASE_BUFFERS: an idle connection holds no record buffers (2 x 17 KB). PARTIAL_WRITE and
        // MOVING_WRITE_BUFFER: SSL_write takes one record at a time, and bytes may move between calls.
        upstream_ssl_ctx_set_mode(
            handle,
            Int(SSL_MODE_RELEASE_BUFFERS) | Int(SSL_MODE_ENABLE_PARTIAL_WRITE)
                | Int(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER)
        )
        if expected != nil { try requireForwardSecrecy() }
    }

    deinit { SSL_CTX_free(handle) }

    /// A context for connections to one server name; throws ``TLSError/Code/misconfigured``.
    package static func client(_ configuration: TLSClientConfiguration) throws(TLSError) -> TLSContext {
        let name = try ReferenceIdentity(configuration.serverName)
        let context = try TLSContext(expecting: name)
        context.section = configuration.section
        context.handshakeTimeout = configuration.handshakeTimeout
        context.closeTimeout = configuration.closeTimeout
        if case .host = name, let domain = configuration.xmppDomain {
            context.xmppNames = try XMPPCertificateNames(domain)
        }
        try context.setVersions(.v1_2, .v1_3)
        try context.load(trust: configuration.trust)
        if let identity = configuration.identity {
            try context.load(identity, names: ("tls.client_certificate_file", "tls.client_key_file"))
        }
        if let name = configuration.applicationProtocol { try context.offer(name) }
        return context
    }

    /// The seconds until this side's certificate expires; negative if it has, nil if there is none.
    package var certificateEnd: Int? {
        // Both stay their owners'.
        SSL_CTX_get0_certificate(handle).flatMap(CertificateEnd.remaining)
    }

    /// A context for a listener; throws ``TLSError/Code/misconfigured``.
    package static func server(_ configuration: TLSServerConfiguration) throws(TLSError) -> TLSContext {
        let context = try TLSContext(expecting: nil)
        if configuration.needsForwardSecrecy { try context.requireForwardSecrecy() }
        if let level = configuration.securityLevel { SSL_CTX_set_security_level(context.handle, level) }
        try context.setVersions(configuration.minimumVersion, configuration.maximumVersion)
        try context.load(configuration.identity, names: ("the certificate", "the private key"))
        return context
    }

    /// Speaks suites with forward secrecy and authenticated encryption only (RFC 9325 §4.2); all of TLS 1.3 have both.
    private func requireForwardSecrecy() throws(TLSError) {
        guard SSL_CTX_set_cipher_list(handle, "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM") == 1 else {
            throw .internalFailure("a list of cipher suites")
        }
    }

    private func setVersions(_ minimum: TLSVersion, _ maximum: TLSVersion) throws(TLSError) {
        guard minimum.rawValue <= maximum.rawValue,
            upstream_ssl_ctx_set_versions(handle, minimum.rawValue, maximum.rawValue) == 1
        else { throw .misconfigured("the TLS versions \(minimum) to \(maximum) can't be set") }
    }

    private func offer(_ name: String) throws(TLSError) {
        guard (1...255).contains(name.utf8.count) else {
            throw .misconfigured("the protocol name \"\(name)\" is none for ALPN")
        }
        // OpenSSL copies it, and returns 0 for success here.
        let list = [UInt8(name.utf8.count)] + name.utf8
        guard SSL_CTX_set_alpn_protos(handle, list, UInt32(list.count)) == 0 else {
            throw .internalFailure("a list of protocols")
        }
        applicationProtocol = name
    }

    private func load(trust: PEMSource?) throws(TLSError) {
        ERR_clear_error()
        guard let trust else {
            guard SSL_CTX_set_default_verify_paths(handle) == 1 else {
                throw .internalFailure("the system's trust store")
            }
            return
        }
        // The store stays the context's; it takes its own reference to each certificate.
        let store = SSL_CTX_get_cert_store(handle)
        try trust.forEachCertificate("\(section).ca_file") { _, certificate throws(TLSError) in
            guard X509_STORE_add_cert(store, certificate) == 1 else {
                throw .internalFailure("a trust store of \(section).ca_file")
            }
        }
        // Naming an intermediate authority or the server's own certificate means trusting it.
        X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
    }

    /// Loads this side's certificate and key; `names` are for errors.
    private func load(_ identity: TLSIdentity, names: (certificate: String, key: String)) throws(TLSError) {
        let handle = handle
        let chain = identity.certificateChain.label(names.certificate)
        // The context takes its own references to certificates and key.
        try identity.certificateChain.forEachCertificate(names.certificate) { index, certificate throws(TLSError) in
            let accepted =
                index == 0
                ? SSL_CTX_use_certificate(handle, certificate) : upstream_ssl_ctx_add1_chain_cert(handle, certificate)
            guard accepted == 1 else { throw .misconfigured("\(chain) can't be used: \(OpenSSLFailure.takeText())") }
        }
        try identity.privateKey.withPrivateKey(names.key) { key throws(TLSError) in
            guard SSL_CTX_use_PrivateKey(handle, key) == 1, SSL_CTX_check_private_key(handle) == 1 else {
                let key = identity.privateKey.label(names.key)
                throw .misconfigured("\(key) does not belong to \(chain): \(OpenSSLFailure.takeText())")
            }
        }
    }
}
