import Digests
import Vocabulary

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
        text = Hex.encode(bytes)
        digest = Self.digest(of: text)
    }

    static func digest(of text: String) -> [UInt8] { HashFunction.sha256.digest(of: Array(text.utf8)) }
}
