import COpenSSL

/// The name to compare a server's certificate with (RFC 9525 §6.1).
enum ReferenceIdentity: Sendable, Hashable {
    /// A host name without a final dot; compared with DNS names and sent as SNI.
    case host(String)
    /// An address; compared with IP names, no SNI is sent.
    case address(String)

    /// Parses a host name or address.
    init(_ serverName: String) throws(TLSError) {
        guard !serverName.isEmpty, serverName.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw .misconfigured(
                "the server name \"\(serverName)\" is not a host name: use ASCII, international names as xn-- labels"
            )
        }
        var name = serverName
        if name.hasPrefix("["), name.hasSuffix("]") { name = String(name.dropFirst().dropLast()) }
        // We own it and free it at once: only whether it parses counts.
        if let address = a2i_IPADDRESS(name) {
            ASN1_OCTET_STRING_free(address)
            self = .address(name)
            return
        }
        ERR_clear_error()
        if name.hasSuffix(".") { name.removeLast() }
        guard !name.isEmpty, name.utf8.count <= 253 else {
            throw .misconfigured("the server name \"\(serverName)\" is not a host name")
        }
        // OpenSSL would take it for "any name below".
        guard !name.hasPrefix(".") else {
            throw .misconfigured("the server name \"\(serverName)\" begins with a dot: name one host, without the dot")
        }
        self = .host(name)
    }

    var name: String {
        switch self {
        case .host(let name), .address(let name): name
        }
    }

    /// Makes `ssl` expect this identity; OpenSSL copies the strings.
    func apply(to ssl: OpaquePointer) throws(TLSError) {
        switch self {
        case .host(let name):
            // NEVER_CHECK_SUBJECT: only the alternative names count, all that an authority checks (RFC 9525 section 2).
            let flags = X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
            SSL_set_hostflags(ssl, UInt32(flags))
            guard SSL_set1_host(ssl, name) == 1, upstream_ssl_set_sni(ssl, name) == 1 else {
                throw .misconfigured("the server name \"\(name)\" can't be used for TLS")
            }
        case .address(let address):
            guard X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), address) == 1 else {
                throw .misconfigured("the address \"\(address)\" can't be used for TLS")
            }
        }
    }
}
