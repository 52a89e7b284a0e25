import CLI
import QuerySupport
import Testing
import Vocabulary

@Suite("text for terminals")
struct TerminalTests {
    @Test(
        "characters that a terminal acts on are shown by their number, and all others as they are",
        arguments: [
            ("plain", "plain"), ("", ""), ("ä 😀 日本", "ä 😀 日本"), ("a\nb\rc\td", "a\\nb\\rc\\td"),
            ("\u{1B}[31m", "\\u{1B}[31m"), ("\u{9B}31m", "\\u{9B}31m"), ("\u{7F}", "\\u{7F}"), ("\u{0}", "\\u{0}"),
            ("\u{202E}x", "\\u{202E}x"), ("a\u{200B}b", "a\\u{200B}b"), ("\u{FEFF}", "\\u{FEFF}"),
            ("\u{E000}", "\\u{E000}"), ("\u{2028}", "\\u{2028}"), ("\u{E0041}", "\\u{E0041}"),
            ("back\\slash", "back\\slash"),
        ]
    )
    func escapes(_ text: String, _ shown: String) {
        #expect(TerminalText.escape(text) == shown)
    }

    @Test("bytes that are no UTF-8 are shown one by one, and the text behind them is kept")
    func bytes() {
        #expect(TerminalText.escape(bytes: Array("a\u{1B}ä".utf8)) == "a\\u{1B}ä")
        #expect(TerminalText.escape(bytes: [0x61, 0xFF, 0x62]) == "a\\xFFb")
        #expect(TerminalText.escape(bytes: [0xC3]) == "\\xC3")
        #expect(TerminalText.escape(bytes: [0xE2, 0x82]) == "\\xE2\\x82")
        #expect(TerminalText.escape(bytes: [0xE2, 0x82, 0x41, 0x42]) == "\\xE2\\x82AB")
        #expect(TerminalText.escape(bytes: [0xC0, 0xAF, 0x0A]) == "\\xC0\\xAF\\n")
        #expect(TerminalText.escape(bytes: [0xED, 0xA0, 0x80, 0x7A]) == "\\xED\\xA0\\x80z")
        #expect(TerminalText.escape(bytes: []) == "")
    }

    @Test("every sequence of two bytes out of the interesting ones comes out clean and does not trap")
    func pairs() {
        let interesting: [UInt8] = [0, 9, 0x1B, 0x41, 0x7F, 0x80, 0x9B, 0xBF, 0xC0, 0xC2, 0xE2, 0xED, 0xF0, 0xF4, 0xFF]
        for first in interesting {
            for second in interesting {
                for third in interesting {
                    let shown = TerminalText.escape(bytes: [first, second, third])
                    #expect(shown.unicodeScalars.allSatisfy { !Danger.isDangerous($0) })
                }
            }
        }
    }

    @Test("text is cut to columns, not characters")
    func cut() {
        #expect(TerminalText.cut("abcdef", to: 6) == "abcdef")
        #expect(TerminalText.cut("abcdef", to: 5) == "abcd…")
        #expect(TerminalText.cut("日本語", to: 6) == "日本語")
        #expect(TerminalText.cut("日本語", to: 5) == "日本…")
        #expect(TerminalText.cut("日本語", to: 4) == "日…")
        #expect(TerminalText.cut("abc", to: 0) == "")
        #expect(TerminalText.cut("abc", to: 1) == "…")
        let marks = "a" + String(repeating: "\u{301}", count: 1_000)
        #expect(TerminalText.cut(marks, to: 10).unicodeScalars.count < 20)
        #expect(TerminalText.width("日本 ä") == 6)
    }

    private func table() -> TextTable {
        var table = TextTable([
            TextTable.Column("KEY"), TextTable.Column("CATEGORY", minimum: 8),
            TextTable.Column("ID", minimum: 4, dropOrder: 1),
            TextTable.Column("DATA", minimum: 6, dropOrder: 2),
        ])
        table.append(["0123456789", "com.example.orders", "m-1", #"{"a":"日本語日本語"}"#])
        table.append(["0123456780", "x", "an id", "-"])
        return table
    }

    @Test("a table fits the width: columns give way in their order, and are left out in theirs", arguments: 20...80)
    func fits(_ width: Int) {
        let lines = table().lines(width: width)
        for line in lines { #expect(TerminalText.width(line) <= width, "\(line)") }
        #expect(lines.allSatisfy { $0.contains("0123456789") || $0.contains("0123456780") || $0.hasPrefix("KEY") })
        #expect(lines[0].contains("DATA") == (width >= 34))
        #expect(lines[0].contains("ID") == (width >= 26))
    }

    @Test("without a width nothing is cut")
    func unbounded() {
        #expect(table().lines(width: nil)[1] == #"0123456789  com.example.orders  m-1    {"a":"日本語日本語"}"#)
    }

    @Test("JSON is laid out without touching its parts")
    func indent() {
        let json = #"{"a":1.0e+2,"b":[],"c":{ },"d":["x,]\"{",{"e":null}]}"#
        #expect(
            JSONIndent.lines(Array(json.utf8)) == [
                "{", #"  "a": 1.0e+2,"#, #"  "b": [],"#, #"  "c": {},"#, #"  "d": ["#, #"    "x,]\"{","#, "    {",
                #"      "e": null"#, "    }", "  ]", "}",
            ]
        )
        #expect(JSONIndent.lines(Array("\"text\"".utf8)) == ["\"text\""])
        #expect(JSONIndent.lines([]) == [""])
    }

    @Test("no cell of a table and no line of laid-out JSON holds what a terminal may act on")
    func hostileContent() {
        var table = TextTable(["A", "B", "C"].map { TextTable.Column($0) })
        for seed in Awkward.seeds { table.append([seed.category, seed.id, seed.token]) }
        for line in table.lines(width: nil) {
            #expect(line.unicodeScalars.allSatisfy { !Danger.isDangerous($0) })
        }
        for seed in Awkward.seeds {
            for line in JSONIndent.lines(Array((seed.data ?? "").utf8)) {
                #expect(line.unicodeScalars.allSatisfy { !Danger.isDangerous($0) })
            }
        }
    }
}
