import Digests

/// A secret made by the console: 256 random bits in hexadecimal.
struct SecretText: Sendable {
    /// What the holder receives.
    let text: String
    /// What is stored: the time of a lookup reveals nothing about the text.
    let digest: [UInt8]

    init() {
        // The system's generator is getrandom(2).
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<4).flatMap { _ in withUnsafeBytes(of: generator.next() as UInt64) { Array($0) } }
        text = Self.hex(bytes)
        digest = Self.digest(of: text)
    }

    static func digest(of text: String) -> [UInt8] { HashFunction.sha256.digest(of: Array(text.utf8)) }

    private static func hex(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}
