import Testing

@testable import XMLWire

@Suite("Long unfinished tokens cost linear time")
struct UnfinishedTokenTests {
    /// What libxml2 reads again from its start with each call.
    struct Case: CustomTestStringConvertible {
        var start: String
        var repeated: String
        var end: String
        /// What becomes of it: an error's short name, `stanza`, or `unfinished`.
        var outcome: String

        var testDescription: String { start + repeated + repeated + "…" + end }
        var text: String { start + String(repeating: repeated, count: 40_000 / repeated.utf8.count) + end }
    }

    static let cases = [
        Case(start: "<a b='", repeated: ">", end: "'/>", outcome: "stanza"),
        Case(start: "<a b='", repeated: "\">", end: "'/>", outcome: "stanza"),
        Case(start: "<a b=\"", repeated: "'>", end: "\" c='>'></a>", outcome: "stanza"),
        Case(start: "<a b='", repeated: "' b='>", end: "'/>", outcome: "skipped"),
        Case(start: "<a>&#", repeated: "0", end: "65;</a>", outcome: "stanza"),
        Case(start: "<a>&", repeated: "n", end: ";</a>", outcome: "entity"),
        Case(start: "<a>&", repeated: ">", end: "</a>", outcome: "unfinished"),
        Case(start: "<a><!--", repeated: "->", end: "--></a>", outcome: "comment"),
        Case(start: "<a></a '", repeated: ">", end: "'></a>", outcome: "not_well_formed"),
        Case(start: "<a></a '<'", repeated: ">", end: "</a>", outcome: "unfinished"),
        Case(start: "<a></a", repeated: " ", end: ">", outcome: "stanza"),
        Case(start: "<a><b c='<'", repeated: ">", end: "</a>", outcome: "unfinished"),
        Case(start: "<a ", repeated: "\n", end: "/>", outcome: "stanza"),
        Case(start: "<a", repeated: "n", end: "/>", outcome: "stanza"),
        Case(start: "<a><![CDATA[", repeated: "]", end: "]]></a>", outcome: "stanza"),
        Case(start: "<a><![CDATA[", repeated: "x", end: "]]></a>", outcome: "stanza"),
        Case(start: "<a><![CDATA[<b c='", repeated: "&]>", end: "]]></a>", outcome: "stanza"),
        Case(start: "<a>", repeated: "x", end: "</a>", outcome: "stanza"),
        Case(start: "<a>", repeated: "]", end: "</a>", outcome: "stanza"),
        Case(start: "<a>", repeated: "\r", end: "</a>", outcome: "stanza"),
        Case(start: "<a>", repeated: "\u{20AC}", end: "</a>", outcome: "stanza"),
        Case(start: "<a>", repeated: "&amp;", end: "</a>", outcome: "stanza"),
        Case(start: "<a><!", repeated: "x", end: "></a>", outcome: "not_well_formed"),
        Case(start: "<a><?p ", repeated: ">", end: "?></a>", outcome: "processing_instruction"),
    ]

    @Test("kept from the parser while it can't end, and no byte longer", arguments: cases)
    func longToken(_ token: Case) {
        let framer = XMLFramer()
        var outcome = "unfinished"
        for piece in Array((header + token.text).utf8).pieces(of: 1) {
            do throws(XMLStreamError) {
                try framer.feed(piece) { event in
                    if case .skipped = event { outcome = "skipped" }
                    guard case .stanza(let stanza) = event else { return }
                    outcome = "stanza"
                    #expect(stanza.raw == Array(token.text.utf8))
                }
            } catch {
                outcome = error.shortDescription
                break
            }
        }
        #expect(outcome == token.outcome)
        // Each call of the parser may read all that it has not taken yet: with one for each byte that would be 20,000 times
        // the token. It takes text only 300 bytes at a time.
        #expect(framer.held.bytesLookedAt < 400 * token.text.utf8.count)
    }

    @Test("the same stanza comes out in pieces of every size", arguments: [2, 3, 7, 100, 255, 1023, 1400, 5000])
    func pieces(size: Int) {
        for token in Self.cases where token.outcome == "stanza" {
            let text = token.text
            let recording = record(Array((header + text + text + "<b/>").utf8).pieces(of: size))
            #expect(recording.failure == nil)
            #expect(recording.stanzas.map(\.raw) == [text, text, "<b/>"])
        }
    }

    @Test("bytes held back count for the limit")
    func limit() {
        let framer = XMLFramer()
        var fed = 0
        var failure: XMLStreamError?
        for piece in Array((header + "<a b='" + String(repeating: ">", count: 300_000)).utf8).pieces(of: 1) {
            do throws(XMLStreamError) {
                try framer.feed(piece) { _ in }
            } catch {
                failure = error
                break
            }
            fed += 1
        }
        #expect(failure?.code == .limit(.stanzaBytes))
        #expect(fed == header.utf8.count + framer.limits.stanzaBytes - 1)
    }

    @Test("a token is told from what ends it, over every cut")
    func ends() {
        let filler = String(repeating: "x", count: UnfinishedToken.shortBytes)
        let cases: [(start: String, open: String, end: String)] = [
            ("<a b='" + filler, ">\">", "'>"), ("<a b=\"" + filler, ">'>", "\">"), ("<" + filler, "'>'", ">"),
            ("&" + filler, "<>'", ";"), ("<!--" + filler, ">->x-x->", "-->"), ("<!--" + filler, "->", "---->"),
            ("<?" + filler, ">?x>", "?>"), ("<?" + filler, "?", "??>"), ("</" + filler, "' >", "'>"),
        ]
        for (start, open, end) in cases {
            let whole = Array((start + open + end).utf8)
            for cut in start.utf8.count..<whole.count {
                var token = whole[..<cut].withUnsafeBytes { UnfinishedToken($0) }
                #expect(token != nil)
                let early = whole[cut..<whole.count - 1].withUnsafeBytes { token?.mayEnd(in: $0) }
                #expect(early == false, "\(start.prefix(6)) \(cut)")
                let late = whole.suffix(1).withUnsafeBytes { token?.mayEnd(in: $0) }
                #expect(late == true, "\(start.prefix(6)) \(cut)")
            }
            // What should have ended, and has not for the parser, is waited for without hope.
            var overdue = whole.withUnsafeBytes { UnfinishedToken($0) }
            #expect(whole.withUnsafeBytes { overdue?.mayEnd(in: $0) } == false)
        }
        for start in ["<![CDATA[", "x", ""] {
            #expect(Array((start + filler).utf8).withUnsafeBytes { UnfinishedToken($0) } == nil)
        }
        #expect(Array("<a b='".utf8).withUnsafeBytes { UnfinishedToken($0) } == nil)
    }
}
