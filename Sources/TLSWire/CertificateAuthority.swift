import COpenSSL

package struct IssuedCertificate: Sendable {
    /// The certificate, followed by its issuer's.
    package var chainPEM: [UInt8]
    /// The private key, not encrypted.
    package var keyPEM: [UInt8]
}

/// An `otherName` of a certificate.
package struct OtherName: Sendable {
    /// The type's object identifier in dotted form.
    package var type: String
    /// The ASN.1 type of the value, by its name in OpenSSL's configuration.
    package var encoding: String
    package var value: String

    package init(type: String, encoding: String, value: String) {
        self.type = type
        self.encoding = encoding
        self.value = value
    }

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
    /// The authority's certificate, for a client's ``TLSTrust/pem(_:)`` or a `ca_file`.
    package let certificatePEM: [UInt8]
    private let keyPEM: [UInt8]

    /// Makes an authority that is valid for ten years.
    package init(commonName: String = "Upstream development authority") throws(TLSError) {
        let tenYears = 10 * 365 * 86_400
        let request = CertificateRequest(validity: -3600...tenYears)
        let made = try CertificateMaker.make(commonName, request, isAuthority: true, issuer: nil)
        self.certificatePEM = made.certificate
        self.keyPEM = made.key
    }

    /// Issues a certificate, or throws ``TLSError/Code/misconfigured`` for a name that can't stand in one.
    package func issue(_ request: CertificateRequest) throws(TLSError) -> IssuedCertificate {
        let made = try CertificateMaker.make(
            request.subject,
            request,
            isAuthority: false,
            issuer: (certificate: .bytes(self.certificatePEM), key: .bytes(self.keyPEM))
        )
        return IssuedCertificate(chainPEM: made.certificate + self.certificatePEM, keyPEM: made.key)
    }

    package static func selfSigned(_ request: CertificateRequest) throws(TLSError) -> IssuedCertificate {
        let made = try CertificateMaker.make(request.subject, request, isAuthority: false, issuer: nil)
        return IssuedCertificate(chainPEM: made.certificate, keyPEM: made.key)
    }
}

extension CertificateRequest {
    /// The subject's name: the first of the names, or a placeholder.
    fileprivate var subject: String {
        self.commonName ?? self.dnsNames.first ?? self.addresses.first ?? "unnamed"
    }

    /// The names in the syntax of OpenSSL's configuration.
    fileprivate func subjectAlternativeName() throws(TLSError) -> String {
        for name in self.dnsNames + self.addresses + self.otherNames.map(\.value) {
            // Commas and the like would be read as syntax.
            let allowed = name.utf8.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                    || "-._*:@".utf8.contains(byte)
            }
            guard allowed, !name.isEmpty else {
                throw TLSError(.misconfigured, "\"\(name)\" cannot be a name in a certificate")
            }
        }
        let others = self.otherNames.map { "otherName:\($0.type);\($0.encoding):\($0.value)" }
        return (self.dnsNames.map { "DNS:" + $0 } + self.addresses.map { "IP:" + $0 } + others).joined(separator: ",")
    }
}

private enum CertificateMaker {
    typealias Issuer = (certificate: PEMSource, key: PEMSource)

    static func make(
        _ commonName: String,
        _ request: CertificateRequest,
        isAuthority: Bool,
        issuer: Issuer?
    ) throws(TLSError) -> (certificate: [UInt8], key: [UInt8]) {
        ERR_clear_error()
        // We own both and free them below.
        guard let key = upstream_evp_p256_key() else { throw .internalFailure("a key") }
        defer { EVP_PKEY_free(key) }
        guard let certificate = X509_new() else { throw .internalFailure("a certificate") }
        defer { X509_free(certificate) }
        try self.fill(certificate, commonName, request, key)
        if let issuer {
            try issuer.key.withPrivateKey("the authority's key") { issuerKey throws(TLSError) in
                _ = try issuer.certificate.forEachCertificate("the authority") {
                    _,
                    issuerCertificate throws(TLSError) in
                    try self.finish(
                        certificate,
                        request,
                        isAuthority: isAuthority,
                        issuer: issuerCertificate,
                        issuerKey: issuerKey
                    )
                }
            }
        } else {
            try self.finish(certificate, request, isAuthority: isAuthority, issuer: certificate, issuerKey: key)
        }
        let certificatePEM = collectingBIO { PEM_write_bio_X509($0, certificate) }
        let keyPEM = collectingBIO { PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) }
        guard !certificatePEM.isEmpty, !keyPEM.isEmpty else { throw .internalFailure("a certificate in PEM") }
        return (certificatePEM, keyPEM)
    }

    private static func fill(
        _ certificate: OpaquePointer,
        _ commonName: String,
        _ request: CertificateRequest,
        _ key: OpaquePointer
    ) throws(TLSError) {
        // A serial number must be positive and unpredictable (RFC 5280 §4.1.2.2): 63 random bits.
        let serial = UInt64.random(in: 1...UInt64(Int64.max))
        let name = Array(commonName.utf8.prefix(64))
        // The name stays the certificate's.
        guard X509_set_version(certificate, 2) == 1,
            ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) == 1,
            X509_gmtime_adj(X509_getm_notBefore(certificate), request.validity.lowerBound) != nil,
            X509_gmtime_adj(X509_getm_notAfter(certificate), request.validity.upperBound) != nil,
            X509_NAME_add_entry_by_txt(
                X509_get_subject_name(certificate),
                "CN",
                MBSTRING_UTF8,
                name,
                Int32(name.count),
                -1,
                0
            ) == 1,
            X509_set_pubkey(certificate, key) == 1
        else {
            throw .internalFailure("a certificate")
        }
    }

    private static func finish(
        _ certificate: OpaquePointer,
        _ request: CertificateRequest,
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
            extensions.append((NID_ext_key_usage, request.isClient ? "clientAuth" : "serverAuth"))
            let names = try request.subjectAlternativeName()
            if !names.isEmpty {
                extensions.append((NID_subject_alt_name, names))
            }
        }
        guard X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 else {
            throw .internalFailure("a certificate's issuer")
        }
        for (kind, value) in extensions {
            guard upstream_x509_add_extension(issuer, certificate, kind, value) == 1 else {
                throw TLSError(
                    .misconfigured,
                    "\"\(value)\" can't stand in a certificate: \(OpenSSLFailure.takeText())"
                )
            }
        }
        guard X509_sign(certificate, issuerKey, EVP_sha256()) > 0 else {
            throw .internalFailure("a certificate's signature")
        }
    }
}
