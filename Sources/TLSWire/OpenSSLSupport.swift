import COpenSSL

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
#else
#endif

/// The oldest error of this thread's OpenSSL queue.
///
/// All connections of an event loop share their thread's queue: it is emptied before each call whose result is asked
/// about, and here when a failure is read.
struct OpenSSLFailure {
    /// The library that reported it (`ERR_LIB_*`).
    var library: Int32
    /// The reason within the library.
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
        if self.library == ERR_LIB_SYS {
            return String(cString: strerror(self.reason))
        }
        // ERR_PACK: library in bits 23 up, reason below. The string is static.
        let packed = UInt(self.library) << 23 | UInt(self.reason)
        guard let words = ERR_reason_error_string(packed) else { return "error \(self.library)/\(self.reason)" }
        return String(cString: words)
    }

    /// The text of the oldest error, or a placeholder; empties the queue.
    static func takeText() -> String {
        self.take()?.text ?? "no reason given"
    }
}

extension TLSError {
    /// An error for something that OpenSSL could not allocate or initialise.
    static func internalFailure(_ what: String) -> TLSError {
        TLSError(.internalFailure, "OpenSSL could not make \(what): \(OpenSSLFailure.takeText())")
    }
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

/// The text written to a BIO, cut to 200 characters; unprintable ones become dots.
///
/// For names in a peer's certificate, which may hold anything.
func printableText(_ body: (OpaquePointer) -> Void) -> String {
    let bytes = collectingBIO(body).prefix(200)
    return String(decoding: bytes.map { (0x20..<0x7F).contains($0) ? $0 : UInt8(ascii: ".") }, as: UTF8.self)
}

extension PEMSource {
    /// Runs `body` on a BIO over the text; `what` names the source in errors.
    func withBIO<Result>(
        _ what: String,
        _ body: (OpaquePointer) throws(TLSError) -> Result
    ) throws(TLSError) -> Result {
        ERR_clear_error()
        switch self {
        case .file(let path):
            // We own it and free it below.
            guard let bio = BIO_new_file(path, "r") else {
                throw TLSError(.misconfigured, "\(what) \"\(path)\" can't be read: \(OpenSSLFailure.takeText())")
            }
            defer { BIO_free(bio) }
            return try body(bio)
        case .bytes(let bytes):
            // BIO_s_mem copies what is written to it. We own it and free it below.
            guard let bio = BIO_new(BIO_s_mem()) else { throw .internalFailure("a buffer") }
            defer { BIO_free(bio) }
            var written = 0
            guard bytes.isEmpty || BIO_write_ex(bio, bytes, bytes.count, &written) == 1 else {
                throw .internalFailure("a buffer")
            }
            return try body(bio)
        }
    }

    /// The source's name for errors.
    func label(_ what: String) -> String {
        switch self {
        case .file(let path): "\(what) \"\(path)\""
        case .bytes: what
        }
    }

    /// Lends each certificate of the PEM text in turn; returns how many there were, at least one.
    ///
    /// Throws ``TLSError/Code/misconfigured`` for an unreadable file, for text without a certificate and for a broken
    /// one.
    func forEachCertificate(
        _ what: String,
        _ body: (_ index: Int, _ certificate: OpaquePointer) throws(TLSError) -> Void
    ) throws(TLSError) -> Int {
        try self.withBIO(what) { bio throws(TLSError) in
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
            guard noMore else {
                throw TLSError(.misconfigured, "\(self.label(what)): certificate \(count + 1) is broken: \(text)")
            }
            guard count > 0 else {
                throw TLSError(
                    .misconfigured,
                    "\(self.label(what)) holds no certificate: it must be PEM with BEGIN CERTIFICATE lines"
                )
            }
            return count
        }
    }

    func withPrivateKey<Result>(
        _ what: String,
        _ body: (OpaquePointer) throws(TLSError) -> Result
    ) throws(TLSError) -> Result {
        try self.withBIO(what) { bio throws(TLSError) in
            // Without our callback OpenSSL would ask for a passphrase on the terminal. We own the key.
            guard let key = PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in -1 }, nil) else {
                let text = OpenSSLFailure.takeText()
                throw TLSError(
                    .misconfigured,
                    "\(self.label(what)) holds no usable private key (PEM, without a passphrase): \(text)"
                )
            }
            defer { EVP_PKEY_free(key) }
            return try body(key)
        }
    }
}
