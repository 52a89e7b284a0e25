import Foundation
import Testing
import Vocabulary

@Suite("escapes")
struct EscapeTests {
    /// What a terminal may act on, judged apart from the code under test.
    private static func isDangerous(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: true
        default: false
        }
    }

    @Test("nothing that a terminal acts on is left in random text, and printable ASCII is")
    func terminal() {
        var random = SeededGenerator(seed: 5)
        for _ in 0..<1_000 {
            let text = random.text(upTo: 40)
            let shown = TerminalText.escape(text)
            #expect(!shown.unicodeScalars.contains { EscapeTests.isDangerous($0) })
            let plain = String(
                String.UnicodeScalarView(text.unicodeScalars.filter { (0x20..<0x7F).contains($0.value) })
            )
            #expect(TerminalText.escape(plain) == plain)
        }
    }

    @Test(
        "sequences that move the cursor, set the title, or hide or turn text are shown by their numbers",
        arguments: [
            ("\u{1B}[2J\u{1B}[H", "\\u{1B}[2J\\u{1B}[H"), ("\u{1B}]0;title\u{7}", "\\u{1B}]0;title\\u{7}"),
            ("\u{9B}31m", "\\u{9B}31m"), ("\u{90}q\u{9C}", "\\u{90}q\\u{9C}"), ("a\u{8}b", "a\\u{8}b"),
            ("a\rb", "a\\rb"),
            ("\u{202E}gpj.exe", "\\u{202E}gpj.exe"), ("a\u{200D}b", "a\\u{200D}b"), ("\u{FFF9}x", "\\u{FFF9}x"),
        ]
    )
    func sequences(_ text: String, _ shown: String) {
        #expect(TerminalText.escape(text) == shown)
    }

    @Test("bytes of any kind come out clean: text as text, and each byte that is no UTF-8 by its number")
    func invalidBytes() {
        #expect(TerminalText.escape(bytes: [0x61, 0xFF, 0x62, 0xC3]) == "a\\xFFb\\xC3")
        #expect(TerminalText.escape(bytes: [0xF0, 0x9F, 0x98, 0x41]) == "\\xF0\\x9F\\x98A")
        #expect(TerminalText.escape(bytes: [0xED, 0xA0, 0x80]) == "\\xED\\xA0\\x80")
        var random = SeededGenerator(seed: 6)
        for _ in 0..<1_000 {
            let bytes = random.bytes(upTo: 40)
            let shown = TerminalText.escape(bytes: bytes)
            #expect(!shown.unicodeScalars.contains { EscapeTests.isDangerous($0) || $0 == "\u{FFFD}" })
            if let text = String(validating: bytes, as: UTF8.self), !text.contains("\u{FFFD}") {
                #expect(shown == TerminalText.escape(text))
            }
        }
    }

    @Test("a long run of bytes that are no UTF-8 takes time in proportion")
    func manyInvalidBytes() {
        let bytes = [UInt8](repeating: 0xFF, count: 200_000)
        #expect(TerminalText.escape(bytes: bytes).utf8.count == 800_000)
    }

    @Test("JSON for a terminal means the same, holds nothing dangerous, and stays on one line")
    func json() throws {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<500 {
            let texts = [random.text(upTo: 20), random.text(upTo: 20)]
            let json = try JSONSerialization.data(withJSONObject: texts, options: [.prettyPrinted])
            let shown = TerminalText.escape(json: String(decoding: json, as: UTF8.self))
            #expect(!shown.unicodeScalars.contains { EscapeTests.isDangerous($0) })
            #expect(try strings(Array(shown.utf8)) == texts.map { Array($0.unicodeScalars) })
            var bytes: [UInt8] = []
            [UInt8](json).withUnsafeBytes { JSONEscape.jsonForTerminal.append($0, to: &bytes) }
            #expect(!bytes.contains { $0 < 0x20 || $0 == 0x7F })
            #expect(try strings(bytes) == texts.map { Array($0.unicodeScalars) })
        }
    }

    @Test("string escapes survive any bytes: no trap, no control characters, and the rest as it came")
    func stringEscapes() {
        var random = SeededGenerator(seed: 8)
        for table in [JSONEscape.string, .stringForTerminal] {
            for _ in 0..<1_000 {
                var bytes: [UInt8] = []
                random.bytes(upTo: 40).withUnsafeBytes { table.append($0, to: &bytes) }
                #expect(!bytes.contains { $0 < 0x20 || $0 == 0x7F })
            }
        }
        for lead in [UInt8(0xC2), 0xE2, 0xF3, 0xEF] {
            var bytes: [UInt8] = []
            [lead].withUnsafeBytes { JSONEscape.stringForTerminal.append($0, to: &bytes) }
            #expect(bytes == [lead])
        }
    }

    private func strings(_ json: [UInt8]) throws -> [[Unicode.Scalar]] {
        try #require(JSONSerialization.jsonObject(with: Data(json)) as? [String]).map { Array($0.unicodeScalars) }
    }
}
