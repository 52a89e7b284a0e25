import COpenSSL

package struct IssuedCertificate: Sendable {
    /// The certificate, followed by its issuer's.
    package var chainPEM: [UInt8]
    /// The private key, not encrypted.
    package var keyPEM: [UInt8]
}

package struct OtherName: Sendable {
    /// The type's object identifier in dotted form.
    var type: String
    /// The ASN.1 type of the value, by its name in OpenSSL's configuration.
    var encoding: String
    var value: String

    /// A service of a domain, such as `_xmpp-client.example.org` (SRV-ID, RFC 4985).
    package static func service(_ name: String) -> OtherName {
        OtherName(type: "1.3.6.1.5.5.7.8.7", encoding: "IA5STRING", value: name)
    }

    /// An XMPP address (XmppAddr, RFC 6120 section 13.7.1.4).
    package static func xmppAddress(_ address: String) -> OtherName {
        OtherName(type: "1.3.6.1.5.5.7.8.5", encoding: "UTF8", value: address)
    }
}

/// The content of a certificate to issue.
package struct CertificateRequest: Sendable {
    /// Host names; a wildcard is allowed as the first label.
    package var dnsNames: [String]
    /// IPv4 and IPv6 addresses.
    package var addresses: [String]
    package var otherNames: [OtherName]
    package var isClient: Bool
    /// The subject's name; by default the first of the names.
    package var commonName: String?
    /// The validity in seconds from now: by default from an hour ago to 90 days ahead.
    package var validity: ClosedRange<Int>

    package init(
        dnsNames: [String] = [],
        addresses: [String] = [],
        otherNames: [OtherName] = [],
        isClient: Bool = false,
        commonName: String? = nil,
        validity: ClosedRange<Int> = -3600...7_776_000
    ) {
        self.commonName = commonName
        self.dnsNames = dnsNames
        self.addresses = addresses
        self.otherNames = otherNames
        self.isClient = isClient
        self.validity = validity
    }
}

/// An authority in memory, for the emulator and for tests.
///
/// Keys are P-256, signatures ECDSA with SHA-256. Nothing is written to disk.
package struct CertificateAuthority: Sendable {
    private let own: IssuedCertificate

    /// The authority's certificate, for a client's ``TLSClientConfiguration/trust`` or a `ca_file`.
    package var certificatePEM: [UInt8] { own.chainPEM }

    package init(commonName: String = "Upstream development authority") throws(TLSError) {
        own = try CertificateRequest(commonName: commonName, validity: -3600...315_360_000)
            .certificate(issuer: nil, isAuthority: true)
    }

    package func issue(_ request: CertificateRequest) throws(TLSError) -> IssuedCertificate {
        try request.certificate(issuer: own)
    }

    package static func selfSigned(_ request: CertificateRequest) throws(TLSError) -> IssuedCertificate {
        try request.certificate(issuer: nil)
    }
}

extension CertificateRequest {
    /// Makes a certificate with a new key, self-signed without an issuer.
    fileprivate func certificate(
        issuer: IssuedCertificate?,
        isAuthority: Bool = false
    ) throws(TLSError) -> IssuedCertificate {
        ERR_clear_error()
        // We own both and free them below.
        guard let key = upstream_evp_p256_key() else { throw .internalFailure("a key") }
        defer { EVP_PKEY_free(key) }
        guard let certificate = X509_new() else { throw .internalFailure("a certificate") }
        defer { X509_free(certificate) }
        try fill(certificate, key)
        if let issuer {
            try PEMSource.pem(issuer.keyPEM).withPrivateKey("the authority's key") { issuerKey throws(TLSError) in
                try PEMSource.pem(issuer.chainPEM).forEachCertificate("the authority") { _, own throws(TLSError) in
                    try finish(certificate, isAuthority: isAuthority, issuer: own, issuerKey: issuerKey)
                }
            }
        } else {
            try finish(certificate, isAuthority: isAuthority, issuer: certificate, issuerKey: key)
        }
        let certificatePEM = collectingBIO { PEM_write_bio_X509($0, certificate) }
        let keyPEM = collectingBIO { PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) }
        guard !certificatePEM.isEmpty, !keyPEM.isEmpty else { throw .internalFailure("a certificate in PEM") }
        return IssuedCertificate(chainPEM: certificatePEM + (issuer?.chainPEM ?? []), keyPEM: keyPEM)
    }

    private func fill(_ certificate: OpaquePointer, _ key: OpaquePointer) throws(TLSError) {
        // A serial number must be positive and unpredictable (RFC 5280 §4.1.2.2): 63 random bits.
        let serial = UInt64.random(in: 1...UInt64(Int64.max))
        let name = Array((commonName ?? dnsNames.first ?? addresses.first ?? "unnamed").utf8.prefix(64))
        // The name stays the certificate's.
        let subject = X509_get_subject_name(certificate)
        guard X509_set_version(certificate, 2) == 1,
            ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) == 1,
            X509_gmtime_adj(X509_getm_notBefore(certificate), validity.lowerBound) != nil,
            X509_gmtime_adj(X509_getm_notAfter(certificate), validity.upperBound) != nil,
            X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, Int32(name.count), -1, 0) == 1,
            X509_set_pubkey(certificate, key) == 1
        else { throw .internalFailure("a certificate") }
    }

    private func finish(
        _ certificate: OpaquePointer,
        isAuthority: Bool,
        issuer: OpaquePointer,
        issuerKey: OpaquePointer
    ) throws(TLSError) {
        var extensions: [(Int32, String)] = [
            (NID_basic_constraints, isAuthority ? "critical,CA:TRUE" : "critical,CA:FALSE"),
            (NID_key_usage, isAuthority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature"),
            (NID_subject_key_identifier, "hash"),
        ]
        if !isAuthority {
            extensions.append((NID_ext_key_usage, isClient ? "clientAuth" : "serverAuth"))
            let names = try subjectAlternativeName()
            if !names.isEmpty { extensions.append((NID_subject_alt_name, names)) }
        }
        guard X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 else {
            throw .internalFailure("a certificate's issuer")
        }
        for (kind, value) in extensions {
            guard upstream_x509_add_extension(issuer, certificate, kind, value) == 1 else {
                throw .misconfigured("\"\(value)\" can't stand in a certificate: \(OpenSSLFailure.takeText())")
            }
        }
        guard X509_sign(certificate, issuerKey, EVP_sha256()) > 0 else {
            throw .internalFailure("a certificate's signature")
        }
    }

    /// The names in the syntax of OpenSSL's configuration.
    private func subjectAlternativeName() throws(TLSError) -> String {
        for name in dnsNames + addresses + otherNames.map(\.value) {
            // Commas and the like would be read as syntax.
            let isPlain = name.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                default: "-._*:@".utf8.contains(byte)
                }
            }
            guard isPlain, !name.isEmpty else { throw .misconfigured("\"\(name)\" cannot be a name in a certificate") }
        }
        let others = otherNames.map { "otherName:\($0.type);\($0.encoding):\($0.value)" }
        return (dnsNames.map { "DNS:" + $0 } + addresses.map { "IP:" + $0 } + others).joined(separator: ",")
    }
}
