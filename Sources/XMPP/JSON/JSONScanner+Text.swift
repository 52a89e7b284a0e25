package import Vocabulary

extension JSONScanner {
    /// The text of a string literal's body, escapes decoded; for what is not on the hot path.
    ///
    /// - Parameters:
    ///   - body: The literal without its quotes, as ``JSONMember/body`` and ``JSONMember/key`` give it.
    ///   - text: The text that was scanned.
    /// - Returns: UTF-8; a lone surrogate stands as the three bytes of its number.
    package static func text(of body: ByteSpan, in text: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        let literal = UnsafeBufferPointer(rebasing: text[body.range])
        // Decoding makes nothing longer.
        return [UInt8](unsafeUninitializedCapacity: literal.count + 1) { storage, count in
            count = storage.baseAddress.map { JSONLiteral.unescape(literal, into: $0) } ?? 0
        }
    }
}
