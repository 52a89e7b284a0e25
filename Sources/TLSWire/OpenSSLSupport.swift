import COpenSSL
import Glibc

/// The oldest error of this thread's OpenSSL queue, which all connections of an event loop share.
///
/// The queue is emptied before each call whose result is asked about, and here when a failure is read.
struct OpenSSLFailure {
    /// The library that reported it (`ERR_LIB_*`).
    var library: Int32
    var reason: Int32

    /// Takes the oldest error and empties the queue; nil if there is none.
    static func take() -> OpenSSLFailure? {
        let packed = ERR_get_error()
        ERR_clear_error()
        guard packed != 0 else { return nil }
        return OpenSSLFailure(library: ERR_GET_LIB(packed), reason: ERR_GET_REASON(packed))
    }

    /// OpenSSL's or the system's description.
    var text: String {
        if library == ERR_LIB_SYS { return String(cString: strerror(reason)) }
        // ERR_PACK: library in bits 23 up, reason below. The string is static.
        guard let words = ERR_reason_error_string(UInt(library) << 23 | UInt(reason)) else {
            return "error \(library)/\(reason)"
        }
        return String(cString: words)
    }

    /// The text of the oldest error, or a placeholder; empties the queue.
    static func takeText() -> String { take()?.text ?? "no reason given" }
}

extension TLSError {
    /// An error for something that OpenSSL could not allocate or initialise.
    static func internalFailure(_ what: String) -> TLSError {
        TLSError(.internalFailure, "OpenSSL could not make \(what): \(OpenSSLFailure.takeText())")
    }

    static func misconfigured(_ message: String) -> TLSError { TLSError(.misconfigured, message) }
}

/// Runs `body` on a BIO and returns what was written to it.
func collectingBIO(_ body: (OpaquePointer) -> Void) -> [UInt8] {
    // We own it and free it below.
    guard let bio = BIO_new(BIO_s_mem()) else { return [] }
    defer { BIO_free(bio) }
    body(bio)
    var data: UnsafeMutablePointer<CChar>?
    let length = upstream_bio_mem_data(bio, &data)
    guard let data, length > 0 else { return [] }
    return Array(UnsafeRawBufferPointer(start: data, count: length))
}

/// Text of a peer's certificate, which may hold anything: cut to 200 characters; unprintable ones become dots.
func printableText(_ body: (OpaquePointer) -> Void) -> String {
    let bytes = collectingBIO(body).prefix(200)
    return String(decoding: bytes.map { (0x20..<0x7F).contains($0) ? $0 : UInt8(ascii: ".") }, as: UTF8.self)
}

extension PEMSource {
    /// Runs `body` on a BIO over the text; `what` names the source in errors.
    private func withBIO(_ what: String, _ body: (OpaquePointer) throws(TLSError) -> Void) throws(TLSError) {
        ERR_clear_error()
        let bio: OpaquePointer
        // We own it and free it below.
        switch self {
        case .file(let path):
            guard let opened = BIO_new_file(path, "r") else {
                throw .misconfigured("\(label(what)) can't be read: \(OpenSSLFailure.takeText())")
            }
            bio = opened
        case .pem:
            guard let made = BIO_new(BIO_s_mem()) else { throw .internalFailure("a buffer") }
            bio = made
        }
        defer { BIO_free(bio) }
        if case .pem(let bytes) = self {
            // Copies the bytes.
            var written = 0
            guard bytes.isEmpty || BIO_write_ex(bio, bytes, bytes.count, &written) == 1 else {
                throw .internalFailure("a buffer")
            }
        }
        try body(bio)
    }

    /// The source's name for errors.
    func label(_ what: String) -> String {
        if case .file(let path) = self { "\(what) \"\(path)\"" } else { what }
    }

    /// Lends each certificate of the PEM text in turn; throws unless there is at least one.
    func forEachCertificate(
        _ what: String,
        _ body: (_ index: Int, _ certificate: OpaquePointer) throws(TLSError) -> Void
    ) throws(TLSError) {
        try withBIO(what) { bio throws(TLSError) in
            var count = 0
            // We own each certificate and free it after its turn.
            while let certificate = PEM_read_bio_X509(bio, nil, nil, nil) {
                defer { X509_free(certificate) }
                try body(count, certificate)
                count += 1
            }
            let end = ERR_peek_last_error()
            let noMore = ERR_GET_LIB(end) == ERR_LIB_PEM && ERR_GET_REASON(end) == PEM_R_NO_START_LINE
            let text = OpenSSLFailure.takeText()
            guard noMore else { throw .misconfigured("\(label(what)): certificate \(count + 1) is broken: \(text)") }
            guard count > 0 else {
                throw .misconfigured("\(label(what)) holds no certificate: it must be PEM with BEGIN CERTIFICATE lines")
            }
        }
    }

    /// Throws unless it is a private key in PEM, without a passphrase.
    package func checkPrivateKey() throws(TLSError) { try withPrivateKey("the key") { _ throws(TLSError) in } }

    func withPrivateKey(_ what: String, _ body: (OpaquePointer) throws(TLSError) -> Void) throws(TLSError) {
        try withBIO(what) { bio throws(TLSError) in
            // Without our callback OpenSSL would ask for a passphrase on the terminal. We own the key.
            guard let key = PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in -1 }, nil) else {
                let text = OpenSSLFailure.takeText()
                throw .misconfigured("\(label(what)) holds no usable private key (PEM, without a passphrase): \(text)")
            }
            defer { EVP_PKEY_free(key) }
            try body(key)
        }
    }
}

package enum CertificateEnd {
    /// The seconds until the first certificate of a PEM text expires; negative if it has.
    package static func remaining(_ source: PEMSource) throws(TLSError) -> Int {
        var first: Int?
        try source.forEachCertificate("the certificate") { index, certificate throws(TLSError) in
            if index == 0 { first = remaining(certificate) }
        }
        guard let first else { throw .misconfigured("the certificate has no end that can be read") }
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
