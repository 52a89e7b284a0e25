import COpenSSL

/// When certificates expire.
package enum CertificateEnd {
    /// The seconds until the first certificate of a PEM text expires; negative if it has.
    ///
    /// - Throws: ``TLSError`` if there is none, or it can't be read.
    package static func remaining(_ source: PEMSource) throws(TLSError) -> Int {
        var first: Int?
        _ = try source.forEachCertificate("the certificate") { index, certificate throws(TLSError) in
            if index == 0 { first = remaining(certificate) }
        }
        guard let first else { throw TLSError(.misconfigured, "the certificate has no end that can be read") }
        return first
    }

    /// The same for a certificate, which stays its owner's; nil if its end is invalid.
    static func remaining(_ certificate: OpaquePointer) -> Int? {
        guard let end = X509_get0_notAfter(certificate) else { return nil }
        var days: Int32 = 0
        var seconds: Int32 = 0
        guard ASN1_TIME_diff(&days, &seconds, nil, end) == 1 else { return nil }
        return Int(days) * 86_400 + Int(seconds)
    }
}
