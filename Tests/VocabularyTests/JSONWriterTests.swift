import Foundation
import Testing
import Vocabulary

@Suite("JSON text")
struct JSONWriterTests {
    private func literal(_ text: String) -> String {
        var writer = JSONWriter()
        writer.string(text)
        return String(decoding: writer.finish(), as: UTF8.self)
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

    @Test("whole numbers have all of their digits")
    func integers() {
        func text(_ number: some BinaryInteger) -> String {
            var writer = JSONWriter()
            writer.integer(number)
            return String(decoding: writer.finish(), as: UTF8.self)
        }
        for number in [0, 9, 10, 99, 100, 12_345, .max, -1, -10, .min] { #expect(text(number) == "\(number)") }
        #expect(text(UInt64.max) == "18446744073709551615" && text(UInt8.max) == "255")
        #expect(text(UInt128.max) == "\(UInt128.max)" && text(Int128.min) == "\(Int128.min)")
    }

    @Test("commas and colons are where they belong, at every depth")
    func structure() {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("text", "a\"b")
        writer.member("none", nil as String?)
        writer.member("number", -5)
        writer.member("key", Digest128(high: 0, low: 1))
        writer.member("time", Timestamp(microseconds: 0))
        writer.member("data", json: Array("{\n\"n\":\r\n1}".utf8))
        writer.member("nothing", json: nil)
        writer.name(escaping: "odd\n")
        writer.beginArray()
        writer.beginObject()
        writer.endObject()
        writer.beginArray()
        writer.endArray()
        writer.number(1.5)
        writer.number(.infinity)
        writer.bool(true)
        writer.endArray()
        writer.endObject()
        writer.endLine()
        writer.beginObject()
        writer.endObject()
        let text = String(decoding: writer.finish(), as: UTF8.self)
        let head = #"{"text":"a\"b","none":null,"number":-5,"key":"00000000-0000-0000-0000-000000000001","#
        let tail = #""time":"1970-01-01T00:00:00.000000Z","data":{ "n":  1},"nothing":null,"#
        #expect(text == head + tail + #""odd\n":[{},[],1.5,null,true]}"# + "\n{}")
    }

    @Test("random strings, as values and as names, are read back by a foreign parser")
    func randomStrings() throws {
        var random = SeededGenerator(seed: 9)
        for isForTerminal in [false, true] {
            for _ in 0..<500 {
                let (name, value) = (random.text(upTo: 20), random.text(upTo: 40))
                var writer = JSONWriter(isForTerminal: isForTerminal)
                writer.beginObject()
                writer.name(escaping: name)
                writer.string(value)
                writer.endObject()
                let read = try JSONSerialization.jsonObject(with: Data(writer.finish())) as? [String: String]
                let member = try #require(read?.first)
                #expect(Array(member.key.unicodeScalars) == Array(name.unicodeScalars))
                #expect(Array(member.value.unicodeScalars) == Array(value.unicodeScalars))
            }
        }
    }
}
