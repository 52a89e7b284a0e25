import Foundation
import Telemetry
import Testing

@Suite("JSON string literals")
struct JSONStringTests {
    private func literal(_ text: String) -> String {
        var bytes: [UInt8] = []
        bytes.append(jsonString: text)
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("quotes, backslashes, control characters and line separators are escaped, and their neighbours are not")
    func escapes() {
        #expect(literal("") == #""""#)
        #expect(literal(#"a"b\c"#) == #""a\"b\\c""#)
        #expect(literal("\n\r\t\0\u{1F}\u{7F}") == #""\n\r\t\u0000\u001f\u007f""#)
        #expect(literal("\u{80}\u{85}\u{9F}\u{A0}é") == #""\u0080\u0085\u009f"# + "\u{A0}é\"")
        #expect(literal("\u{2027}\u{2028}\u{2029}\u{202A}") == "\"\u{2027}" + #"\u2028\u2029"# + "\u{202A}\"")
        #expect(literal("日本 🎉") == "\"日本 🎉\"")
    }

    @Test("a foreign parser reads every character back, on one line")
    func roundTrip() throws {
        var text = ""
        for value in UInt32(0)...0x3000 { text.unicodeScalars.append(Unicode.Scalar(value) ?? "x") }
        for value in stride(from: UInt32(0xE000), through: 0x10FFFF, by: 997) {
            text.unicodeScalars.append(Unicode.Scalar(value) ?? "x")
        }
        let written = literal(text)
        let read = try JSONSerialization.jsonObject(with: Data(written.utf8), options: .fragmentsAllowed) as? String
        #expect(read.map { Array($0.unicodeScalars) } == Array(text.unicodeScalars))
        #expect(!written.unicodeScalars.contains { $0.properties.generalCategory == .control })
    }
}
