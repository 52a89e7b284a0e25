import COpenSSL

/// The hash functions of SCRAM (RFC 5802, RFC 7677) and the functions built on them, by libcrypto.
package enum HashFunction: Sendable, CaseIterable {
    /// SHA-1 (FIPS 180-4): unfit for signatures, still sound inside HMAC.
    case sha1
    case sha256
    case sha512

    package var length: Int {
        switch self {
        case .sha1: 20
        case .sha256: 32
        case .sha512: 64
        }
    }

    // A constant of libcrypto's, never freed.
    private var algorithm: OpaquePointer? {
        switch self {
        case .sha1: EVP_sha1()
        case .sha256: EVP_sha256()
        case .sha512: EVP_sha512()
        }
    }

    package func digest(of message: [UInt8]) -> [UInt8] {
        output("a digest") { bytes in
            var written: UInt32 = 0
            // All pointers are borrowed for the call.
            return EVP_Digest(message, message.count, bytes, &written, algorithm, nil) == 1 && written == length
        }
    }

    /// HMAC (RFC 2104) of a message, ``length`` bytes, with a key of any length.
    package func code(for message: [UInt8], key: [UInt8]) -> [UInt8] {
        output("an HMAC") { bytes in
            var written: UInt32 = 0
            // All pointers are borrowed for the call.
            let code = HMAC(algorithm, key, Int32(clamping: key.count), message, message.count, bytes, &written)
            return code != nil && written == length
        }
    }

    /// PBKDF2 (RFC 8018 section 5.2) with HMAC: SCRAM's `Hi`; the caller bounds `iterations`.
    package func derive(password: [UInt8], salt: [UInt8], iterations: Int) -> [UInt8] {
        output("a derived key") { bytes in
            password.withUnsafeBytes { secret in
                // All pointers are borrowed for the call; the password is bytes, despite the header's `char`.
                PKCS5_PBKDF2_HMAC(
                    secret.assumingMemoryBound(to: CChar.self).baseAddress,
                    Int32(clamping: secret.count),
                    salt,
                    Int32(clamping: salt.count),
                    Int32(clamping: max(iterations, 1)),
                    algorithm,
                    Int32(length),
                    bytes
                ) == 1
            }
        }
    }

    /// Fills a buffer of a digest's length; libcrypto fails only when out of memory.
    private func output(_ what: StaticString, _ fill: (UnsafeMutablePointer<UInt8>?) -> Bool) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: length) { bytes, count in
            let isFilled = fill(bytes.baseAddress)
            precondition(isFilled, "libcrypto has no memory for \(what)")
            count = length
        }
    }
}

package enum ConstantTime {
    /// Compares two byte strings in time independent of where they differ.
    package static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        // Both pointers are borrowed for the call.
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}
