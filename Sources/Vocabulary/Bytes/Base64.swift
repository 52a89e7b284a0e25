import FoundationEssentials

/// Base64 with padding (RFC 4648 §4), canonical only.
package enum Base64 {
    package static func encode(_ bytes: [UInt8]) -> [UInt8] { Array(Data(bytes).base64EncodedData()) }

    package static func text(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    /// Decodes padded text; nil for anything else, including unused bits that are not zero.
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        let text = Array(text)
        // Foundation ignores unused bits.
        guard let bytes = Data(base64Encoded: Data(text)).map(Array.init), encode(bytes) == text else { return nil }
        return bytes
    }
}
