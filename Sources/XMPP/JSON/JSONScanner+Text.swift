package import Vocabulary

extension JSONScanner {
    /// The text of a string literal's body, escapes decoded; not for the hot path.
    ///
    /// - Parameters:
    ///   - body: The literal without its quotes, as in ``JSONMember/body`` and ``JSONMember/key``.
    ///   - text: The text that was scanned.
    /// - Returns: UTF-8; a lone surrogate becomes the three bytes of its number.
    package static func text(of body: ByteSpan, in text: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        let literal = UnsafeBufferPointer(rebasing: text[body.range])
        // Decoding makes nothing longer.
        return [UInt8](unsafeUninitializedCapacity: literal.count + 1) { storage, count in
            count = storage.baseAddress.map { JSONLiteral.unescape(literal, into: $0) } ?? 0
        }
    }
}
