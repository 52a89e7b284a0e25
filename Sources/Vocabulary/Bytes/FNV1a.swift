/// FNV-1a, 64 bits: a quick hash that is the same in every process.
///
/// For names and file checks; whoever chooses the input can make collisions. Digests are the Digests module's.
package struct FNV1a: Sendable {
    /// The hash of the bytes so far.
    package private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325

    /// The hash of nothing.
    package init() {}

    /// Continues over these bytes.
    package mutating func update(_ bytes: UnsafeBufferPointer<UInt8>) {
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
    }

    /// The hash of a byte sequence.
    package static func hash(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt64 {
        var hash = FNV1a()
        hash.update(bytes)
        return hash.hash
    }

    /// The hash of a text's UTF-8.
    package static func hash(_ text: String) -> UInt64 {
        var text = text
        return text.withUTF8 { hash($0) }
    }
}
