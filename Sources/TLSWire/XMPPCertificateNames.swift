import COpenSSL

/// The names of an XMPP server that OpenSSL does not compare: SRV-ID and XmppAddr (RFC 6120 section 13.7.1.2).
///
/// Both are `otherName`s of the subjectAltName with fixed encodings; another encoding makes it invalid. They are
/// compared without case and as a whole: only DNS names, which OpenSSL compares, may have wildcards.
struct XMPPCertificateNames: Sendable {
    /// The domain as in XMPP addresses: in ASCII, and with U-labels (RFC 7622 section 3.2.1).
    private let addresses: [[UInt8]]
    /// The domain's service, in ASCII (RFC 4985).
    private let service: [UInt8]

    init(_ domain: (ascii: String, unicode: String)) throws(TLSError) {
        let ascii = try ReferenceIdentity(domain.ascii).name
        addresses = [Array(ascii.utf8), Array(domain.unicode.utf8)]
        service = Array("_xmpp-client.\(ascii)".utf8)
    }

    /// Whether a certificate, lent for the call, names the domain's service for clients.
    func match(_ certificate: OpaquePointer) -> Bool {
        // We own it and free it below; nil if there is no such extension, or more than one.
        guard let extracted = X509_get_ext_d2i(certificate, NID_subject_alt_name, nil, nil) else {
            ERR_clear_error()
            return false
        }
        let names = OpaquePointer(extracted)
        defer { GENERAL_NAMES_free(names) }
        return (0..<upstream_general_name_count(names)).contains { index in
            // Stays the list's, with everything in it.
            guard let name = upstream_general_name(names, index), name.pointee.type == GEN_OTHERNAME,
                let other = name.pointee.d.otherName, let value = other.pointee.value
            else { return false }
            return switch (OBJ_obj2nid(other.pointee.type_id), value.pointee.type) {
            // RFC 4985 section 2.
            case (NID_SRVName, V_ASN1_IA5STRING): Self.equal(value.pointee.value.ia5string, service)
            // RFC 6120 section 13.7.1.4.
            case (NID_XmppAddr, V_ASN1_UTF8STRING):
                addresses.contains { Self.equal(value.pointee.value.utf8string, $0) }
            default: false
            }
        }
    }

    private static func equal(_ text: UnsafeMutablePointer<ASN1_STRING>?, _ expected: [UInt8]) -> Bool {
        guard let text, let bytes = ASN1_STRING_get0_data(text) else { return false }
        let found = UnsafeBufferPointer(start: bytes, count: Int(ASN1_STRING_length(text)))
        return found.count == expected.count && zip(found, expected).allSatisfy { fold($0) == fold($1) }
    }

    private static func fold(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}
