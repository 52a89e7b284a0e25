import COpenSSL
package import Vocabulary

/// A SHA-256 computation over any number of parts, without an allocation.
///
/// A value: a copy continues from the state reached so far, so that a constant prefix is hashed only once. FIPS 180-4; the
/// work is libcrypto's (with the processor's SHA instructions where it has them).
package struct SHA256: Sendable {
    private var context = SHA256_CTX()

    /// The hash of nothing.
    package init() {
        // Borrowed for the call; can't fail: it only writes constants into the context.
        _ = upstream_sha256_init(&context)
    }

    /// Continues over these bytes.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return }
        // Borrowed for the call; fails only past 2^64 bits of input.
        _ = upstream_sha256_update(&context, base, bytes.count)
    }

    /// Continues over one byte.
    package mutating func update(_ byte: UInt8) {
        withUnsafeBytes(of: byte) { update($0) }
    }

    /// Continues over 8 bytes: this number, big-endian.
    package mutating func update(bigEndian number: UInt64) {
        withUnsafeBytes(of: number.bigEndian) { update($0) }
    }

    /// The digest's first 16 bytes.
    package consuming func finish128() -> Digest128 {
        withUnsafeTemporaryAllocation(byteCount: 32, alignment: 8) { digest in
            finish(into: digest)
            return Digest128(
                high: UInt64(bigEndian: digest.load(fromByteOffset: 0, as: UInt64.self)),
                low: UInt64(bigEndian: digest.load(fromByteOffset: 8, as: UInt64.self))
            )
        }
    }

    /// All 32 bytes of the digest.
    package consuming func finish() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: 32) { digest, count in
            finish(into: UnsafeMutableRawBufferPointer(digest))
            count = 32
        }
    }

    /// Writes the digest.
    ///
    /// - Parameter digest: Takes 32 bytes.
    /// - Precondition: `digest` holds at least 32 bytes.
    private mutating func finish(into digest: UnsafeMutableRawBufferPointer) {
        precondition(digest.count >= 32, "a SHA-256 digest takes 32 bytes")
        // Both borrowed for the call; libcrypto wipes the context.
        _ = upstream_sha256_final(digest.assumingMemoryBound(to: UInt8.self).baseAddress, &context)
    }
}

extension Digest128 {
    /// The first 16 bytes of a byte sequence's SHA-256.
    package init(hashing bytes: UnsafeRawBufferPointer) {
        var hash = SHA256()
        hash.update(bytes)
        self = hash.finish128()
    }

    /// The first 16 bytes of the SHA-256 of a text's UTF-8.
    package init(hashing text: String) {
        var text = text
        self = text.withUTF8 { Digest128(hashing: UnsafeRawBufferPointer($0)) }
    }
}
