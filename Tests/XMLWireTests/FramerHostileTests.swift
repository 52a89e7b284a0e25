import Foundation
import Testing

@testable import XMLWire

@Suite("What XMPP forbids ends the stream for good")
struct FramerHostileTests {
    /// A line of `Tests/Fixtures/xml/hostile.txt`, which a foreign parser judges as well (`expat-verdicts.py`).
    struct Case: CustomTestStringConvertible {
        var name: String
        var verdict: String
        var stanzas: Int
        var bytes: [UInt8]

        var testDescription: String { name }
    }

    static let cases: [Case] = {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Fixtures/xml/hostile.txt")
        guard let text = try? String(contentsOf: file, encoding: .utf8) else { return [] }
        return text.split(separator: "\n").filter { !$0.hasPrefix("#") }.compactMap { line in
            let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            guard fields.count == 5, let stanzas = Int(fields[2]) else { return nil }
            return Case(name: fields[0], verdict: fields[1], stanzas: stanzas, bytes: unescaped(fields[4]))
        }
    }()

    /// `{H}` is the stream header; `\xNN` a byte.
    private static func unescaped(_ field: String) -> [UInt8] {
        var rest = Array(field.replacing("{H}", with: header).utf8)[...]
        var bytes: [UInt8] = []
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), rest.first == UInt8(ascii: "x") else {
                bytes.append(byte)
                continue
            }
            bytes.append(UInt8(String(decoding: rest.dropFirst().prefix(2), as: UTF8.self), radix: 16) ?? 0)
            rest = rest.dropFirst(3)
        }
        return bytes
    }

    @Test("the cases are there")
    func corpusIsRead() {
        #expect(Self.cases.count >= 50)
        #expect(Self.cases.allSatisfy { !$0.bytes.isEmpty })
    }

    @Test("whole, byte by byte and in small pieces", arguments: cases)
    func hostile(_ hostile: Case) {
        let whole = record([hostile.bytes])
        let unfailed = whole.skipped.isEmpty ? "accepted" : "skipped"
        #expect(whole.failure?.shortDescription ?? unfailed == hostile.verdict)
        #expect(whole.stanzas.count == hostile.stanzas)
        for size in 1...7 {
            let cut = record(hostile.bytes.pieces(of: size))
            #expect(cut.failure?.code == whole.failure?.code, "pieces of \(size)")
            #expect(cut.events == whole.events, "pieces of \(size)")
        }
    }

    @Test("nothing is read after an error, and it is reported again")
    func final() {
        let bytes = [header + "<a/><b><!-- -->", "</b><c/>", "</stream:stream>"].map { Array($0.utf8) }
        let framer = XMLFramer()
        var events = 0
        var failures: [XMLStreamError] = []
        for piece in bytes {
            do throws(XMLStreamError) {
                try framer.feed(piece) { _ in events += 1 }
            } catch {
                failures.append(error)
            }
        }
        #expect(events == 2)
        #expect(failures.map(\.code) == [.comment, .comment, .comment])
    }

    @Test("every error has an RFC 6120 condition, and a text without the peer's bytes")
    func errorTexts() {
        let secret = "s3cret-payload"
        for text in [
            "<a>\(secret)</b>", "<a>&\(secret);</a>", "<p:a>\(secret)</b>", secret, "<a \(secret)='1' \(secret)='2'/>",
        ] {
            let failure = record(header + text + "<b>").failure
            #expect(failure != nil)
            #expect(failure.map { "\($0) \($0.message)".contains(secret) } == false)
        }
        let conditions: Set = [
            "not-well-formed", "restricted-xml", "unsupported-encoding", "policy-violation", "invalid-namespace",
            "bad-format", "internal-server-error",
        ]
        let codes: [XMLStreamError.Code] =
            [
                .notWellFormed, .dtd, .entity, .comment, .processingInstruction, .badEncoding, .invalidNamespace,
                .textAtStreamLevel, .tlsRecord, .parserUnavailable,
            ] + XMLStreamError.Limit.allCases.map { .limit($0) }
        for code in codes {
            let error = XMLStreamError(code)
            #expect(conditions.contains("\(error.condition)"))
            #expect(!error.message.isEmpty)
        }
    }
}
