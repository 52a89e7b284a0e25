/// FNV-1a, 64 bits: a fast hash, the same in every process.
///
/// An attacker can construct collisions.
package struct FNV1a: Sendable {
    package private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325

    package init() {}

    package mutating func update(_ bytes: UnsafeBufferPointer<UInt8>) {
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
    }

    package static func hash(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt64 {
        var hash = FNV1a()
        hash.update(bytes)
        return hash.hash
    }

    package static func hash(_ text: String) -> UInt64 {
        var text = text
        return text.withUTF8 { hash($0) }
    }
}
