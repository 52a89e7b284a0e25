import COpenSSL
package import Vocabulary

/// An incremental SHA-256 (FIPS 180-4) that allocates nothing.
///
/// A copy continues from the state reached so far, so a constant prefix is hashed only once. libcrypto does the work,
/// with the processor's SHA instructions if it has them.
package struct SHA256: Sendable {
    private var context = SHA256_CTX()

    package init() {
        // Borrowed for the call; can't fail: it only writes constants into the context.
        _ = upstream_sha256_init(&context)
    }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return }
        // Borrowed for the call; fails only past 2^64 bits of input.
        _ = upstream_sha256_update(&context, base, bytes.count)
    }

    package mutating func update(_ byte: UInt8) { withUnsafeBytes(of: byte) { update($0) } }

    /// Hashes a number as 8 bytes, big-endian.
    package mutating func update(bigEndian number: UInt64) {
        withUnsafeBytes(of: number.bigEndian) { update($0) }
    }

    package consuming func finish128() -> Digest128 {
        withUnsafeTemporaryAllocation(byteCount: 32, alignment: 8) { digest in
            finish(into: digest)
            return Digest128(
                high: UInt64(bigEndian: digest.load(fromByteOffset: 0, as: UInt64.self)),
                low: UInt64(bigEndian: digest.load(fromByteOffset: 8, as: UInt64.self))
            )
        }
    }

    package consuming func finish() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: 32) { digest, count in
            finish(into: UnsafeMutableRawBufferPointer(digest))
            count = 32
        }
    }

    /// - Precondition: `digest` holds at least 32 bytes.
    private mutating func finish(into digest: UnsafeMutableRawBufferPointer) {
        precondition(digest.count >= 32, "a SHA-256 digest takes 32 bytes")
        // Both pointers are borrowed for the call; libcrypto wipes the context.
        _ = upstream_sha256_final(digest.assumingMemoryBound(to: UInt8.self).baseAddress, &context)
    }
}

extension Digest128 {
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
