import Digests
package import Vocabulary

/// The fingerprint of docs/protocol.md (What identifies a message), from a row's columns.
package enum Fingerprint {
    /// The first 16 bytes of SHA-256 over the parts, each as 8 bytes of length and its bytes.
    ///
    /// An absent part is the length 2^64-1 alone. `data` is verbatim text.
    package static func compute(
        token: [UInt8],
        category: [UInt8],
        messageType: [UInt8]?,
        data: [UInt8]?
    ) -> Digest128 {
        var hash = SHA256()
        for part in [token, category, messageType, data] {
            guard let part else {
                hash.update(bigEndian: .max)
                continue
            }
            part.withUnsafeBytes { add($0, to: &hash) }
        }
        return hash.finish128()
    }

    static func add(_ part: UnsafeRawBufferPointer, to hash: inout SHA256) {
        hash.update(bigEndian: UInt64(part.count))
        hash.update(part)
    }
}
