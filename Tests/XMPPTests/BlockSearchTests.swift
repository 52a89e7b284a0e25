import Testing

@testable import Vocabulary
@testable import XMPP

/// What the searches of 16 bytes at a time find is what a look at each byte by itself finds.
@Suite struct BlockSearchTests {
    /// What is wrong with a text that begins with a quote, as far as its string goes; escapes are not expected.
    private func fault(in text: [UInt8]) -> JSONSyntaxError? {
        for (at, byte) in text.enumerated().dropFirst() {
            switch byte {
            case UInt8(ascii: "\""): return at + 1 == text.count ? nil : JSONSyntaxError(.trailingBytes, at: at + 1)
            case UInt8(ascii: "\\"): return JSONSyntaxError(.invalidEscape, at: at)
            case ..<0x20: return JSONSyntaxError(.controlCharacter, at: at)
            case 0x80...: return JSONSyntaxError(.invalidUTF8, at: at)
            default: continue
            }
        }
        return JSONSyntaxError(.unexpectedEnd, at: text.count)
    }

    @Test("each byte at each place of a long JSON string is taken or refused, and the first that is refused is named")
    func strings() {
        var wrong: Set<UInt8> = []
        for behind in [UInt8(ascii: "x"), 0x01] {
            for offset in 0..<48 {
                for byte in UInt8.min...UInt8.max {
                    var inside = [UInt8](repeating: UInt8(ascii: "x"), count: 64)
                    inside[offset] = byte
                    inside[offset + 1] = behind
                    let text = [UInt8(ascii: "\"")] + inside + [UInt8(ascii: "\"")]
                    let found: JSONSyntaxError? =
                        if case .failure(let error) = JSONScannerTests.scan(text) { error } else { nil }
                    if found != fault(in: text) { wrong.insert(byte) }
                }
            }
        }
        #expect(wrong.sorted() == [])
    }

    /// Whether an ack holds a character as it is.
    private func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7f...0x9f, 0xfffe, 0xffff: false
        default: !"<>&'".unicodeScalars.contains(scalar)
        }
    }

    @Test("each character at each place of a long text stands in an ack as it is, or ends the run that does")
    func acks() {
        var scalars = (UInt8.min...UInt8.max).map { Unicode.Scalar($0) }
        scalars += ["\u{7ff}", "\u{800}", "\u{d7ff}", "\u{fffd}", "\u{fffe}", "\u{ffff}", "\u{10000}", "\u{10ffff}"]
        var wrong: Set<Unicode.Scalar> = []
        for behind in ["x", "<"] {
            for offset in 0..<48 {
                for scalar in scalars {
                    let before = String(repeating: "x", count: offset)
                    let rest = String(scalar) + behind + String(repeating: "x", count: 63 - offset)
                    let text = Array((before + rest).utf8)
                    var plain = 0
                    for scalar in (before + rest).unicodeScalars {
                        guard isPlain(scalar) else { break }
                        plain += UTF8.width(scalar)
                    }
                    let found = text.withUnsafeBufferPointer { text in
                        text.baseAddress.map { PlainRun.length($0, text.count) }
                    }
                    if found != plain { wrong.insert(scalar) }
                }
            }
        }
        #expect(wrong.sorted() == [])
    }
}
