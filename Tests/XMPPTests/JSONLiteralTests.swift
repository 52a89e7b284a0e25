import Testing

@testable import Vocabulary

/// What string literals stand for.
@Suite struct JSONLiteralTests {
    private func unescape(_ literal: String) -> [UInt8] {
        let literal = Array(literal.utf8)
        return [UInt8](unsafeUninitializedCapacity: max(literal.count, 1)) { output, count in
            guard let base = output.baseAddress else { return }
            count = literal.withUnsafeBufferPointer { JSONLiteral.unescape($0, into: base) }
        }
    }

    @Test(
        "escapes stand for their characters",
        arguments: [
            ("", ""), ("a", "a"), (#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"), (#"\u0041"#, "A"), (#"\u00e9"#, "é"),
            (#"\u20AC"#, "€"), (#"\ud83d\ude00"#, "😀"), (#"x\u0066rom"#, "xfrom"), (#"\\u0041"#, #"\u0041"#),
            (#"\udbff\udfff"#, "\u{10ffff}"), (#"\ud800\udc00"#, "\u{10000}"), ("é😀", "é😀"),
            (
                #"\u007f\u0080\u07ff\u0800"#,
                "\u{7f}\u{80}\u{7ff}\u{800}"
            ),
        ]
    )
    func texts(_ literal: String, _ text: String) {
        #expect(unescape(literal) == Array(text.utf8))
    }

    @Test(
        "U+0000 and lone surrogates get byte forms that no UTF-8 text has",
        arguments: [
            (#"\u0000"#, "c080"), (#"a\u0000b"#, "61c08062"), (#"\ud800"#, "eda080"), (#"\udfff"#, "edbfbf"),
            (#"\ud800\ud800"#, "eda080eda080"), (#"\udc00\ud800"#, "edb080eda080"), (#"\ud800x"#, "eda08078"),
            (#"\ud800\n"#, "eda0800a"), (#"\ud800\ud800\udc00"#, "eda080f0908080"),
        ]
    )
    func whatNoTextHoldsHasAFormOfItsOwn(_ literal: String, _ form: String) {
        #expect(hex(unescape(literal)) == form)
    }
}
