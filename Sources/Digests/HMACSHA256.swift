import COpenSSL

/// HMAC with SHA-256 (RFC 2104, FIPS 198-1); the work is libcrypto's.
package enum HMACSHA256 {
    /// The 32 bytes of authentication code for a message.
    ///
    /// - Parameters:
    ///   - message: What is authenticated.
    ///   - key: The secret, of any length.
    /// - Returns: 32 bytes.
    package static func code(for message: [UInt8], key: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: 32) { code, count in
            var written: UInt32 = 0
            // All borrowed for the call. It fails only where memory runs out; there is no way on from that.
            let result = HMAC(
                EVP_sha256(),
                key,
                Int32(clamping: key.count),
                message,
                message.count,
                code.baseAddress,
                &written
            )
            precondition(result != nil && written == 32, "libcrypto has no memory for an HMAC")
            count = 32
        }
    }
}
