import COpenSSL

/// Until when certificates hold.
package enum CertificateEnd {
    /// When the first certificate of PEM text ends, in seconds from now; negative where it has.
    ///
    /// - Throws: ``TLSError`` where there is none, or it can't be read.
    package static func remaining(_ source: PEMSource) throws(TLSError) -> Int {
        var first: Int?
        _ = try source.forEachCertificate("the certificate") { index, certificate throws(TLSError) in
            if index == 0 { first = remaining(certificate) }
        }
        guard let first else { throw TLSError(.misconfigured, "the certificate has no end that can be read") }
        return first
    }

    /// The same of a certificate, which stays its owner's; nil where its end is no time.
    static func remaining(_ certificate: OpaquePointer) -> Int? {
        guard let end = X509_get0_notAfter(certificate) else { return nil }
        var days: Int32 = 0
        var seconds: Int32 = 0
        guard ASN1_TIME_diff(&days, &seconds, nil, end) == 1 else { return nil }
        return Int(days) * 86_400 + Int(seconds)
    }
}
