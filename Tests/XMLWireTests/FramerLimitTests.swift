import Testing

@testable import XMLWire

@Suite("Limits hold at every moment")
struct FramerLimitTests {
    private func limits(_ change: (inout StreamLimits) -> Void) -> StreamLimits {
        var limits = StreamLimits()
        change(&limits)
        return limits
    }

    /// A stanza of exactly so many bytes.
    private func stanza(bytes: Int) -> String {
        "<a>" + String(repeating: "x", count: bytes - 7) + "</a>"
    }

    @Test("a stanza of the limit passes, one byte more does not", arguments: [64, 1000, 20_000, 256 * 1024])
    func stanzaBytes(limit: Int) {
        let limits = limits { $0.stanzaBytes = limit }
        for size in [7, 333, 16 * 1024, 1 << 20] {
            let good = record(Array((header + "<b/>" + stanza(bytes: limit)).utf8).pieces(of: size), limits: limits)
            #expect(good.failure == nil)
            #expect(good.stanzas.count == 2)
            let bad = record(Array((header + "<b/>" + stanza(bytes: limit + 1)).utf8).pieces(of: size), limits: limits)
            #expect(bad.failure?.code == .limit(.stanzaBytes))
            #expect(bad.stanzas.count == 1)
        }
    }

    @Test("whitespace between stanzas counts for none")
    func keepalives() {
        let limits = limits { $0.stanzaBytes = 64 }
        let text = header + String(repeating: " ", count: 100_000) + "<a/>" + String(repeating: "\n", count: 100_000)
        let recording = record(Array(text.utf8).pieces(of: 1000), limits: limits)
        #expect(recording.failure == nil)
        #expect(recording.stanzas.count == 1)
    }

    /// What is never finished: its beginning, and what is repeated.
    static let endless: [(String, String)] = [
        ("<a b='", "x"), ("<a b='", ">"), ("<", "n"), ("<a ", " "), ("<a>", "x"), ("<a>", "<b/>"), ("<a>", "&amp;"),
        ("<a><![CDATA[", "]"), ("<a><![CDATA[", "<"), ("<a>&", "n"), ("<a>&#", "0"), ("</stream:stream", " "),
        ("<a><!--", "x"), ("<a><?p ", "?"), ("<!DOCTYPE ", "x"), ("<a></a", " "), ("<a xmlns:", "p"), ("<a>", "\r"),
    ]

    @Test("20 MB of something never finished are refused within bounded memory", arguments: endless)
    func unfinished(start: String, repeated: String) {
        let framer = XMLFramer()
        let block = Array(String(repeating: repeated, count: 4096 / repeated.utf8.count).utf8)
        var fed = 0
        var failure: XMLStreamError?
        func feed(_ bytes: [UInt8]) {
            do throws(XMLStreamError) {
                try framer.feed(bytes) { _ in }
            } catch {
                failure = error
            }
        }
        feed(Array((header + "<x/>" + start).utf8))
        while failure == nil, fed < 20 << 20 {
            feed(block)
            fed += block.count
        }
        #expect(failure != nil)
        // A reference counts as one byte.
        let most = (repeated == "&amp;" ? 5 : 1) * framer.limits.stanzaBytes + block.count
        #expect(fed <= most)
        #expect(framer.builder.pointee.capacity <= 2 * most + 2 * framer.limits.stanzaBytes)
    }

    @Test("a header of the limit passes, one byte more does not; nor does an endless one")
    func headerBytes() {
        let limits = limits { $0.headerBytes = 500 }
        let start = "<?xml version='1.0'?>" + header.dropLast()
        for (size, passes) in [(500, true), (501, false), (5000, false)] {
            let text = start + String(repeating: " ", count: size - start.utf8.count - 1) + ">"
            for piece in [1, 64, 10_000] {
                let recording = record(Array(text.utf8).pieces(of: piece), limits: limits)
                #expect((recording.failure == nil) == passes, "\(size), pieces of \(piece)")
                #expect(recording.events.count == (passes ? 1 : 0))
                if !passes { #expect(recording.failure?.code == .limit(.headerBytes)) }
            }
        }
        for endless in [" ", "<?xml version='1.0'?>\n", "<stream:stream a='", "<", "<?xml ", "<!-- "] {
            let text = endless + String(repeating: " ", count: 20_000)
            #expect(record(Array(text.utf8).pieces(of: 100)).failure?.code == .limit(.headerBytes), "\(endless)")
        }
    }

    @Test("the stream's own start tag is held to the limits of any other, and ends the stream")
    func widthOfTheHeader() {
        let attributes = header.dropLast() + (0..<65).map { " a\($0)=''" }.joined() + ">"
        #expect(record(String(attributes)).failure?.code == .limit(.attributes))
        let namespaces = header.dropLast() + (0..<17).map { " xmlns:n\($0)='u'" }.joined() + ">"
        #expect(record(String(namespaces)).failure?.code == .limit(.namespaces))
    }

    @Test("a reference counts as one byte: a server's limit is met before it escapes")
    func escapedStanza() {
        let limits = limits { $0.stanzaBytes = 1000 }
        func stanza(_ quotes: Int) -> String { "<a>" + String(repeating: "&quot;", count: quotes) + "</a>" }
        for size in [1, 7, 100, 1 << 20] {
            let good = record(Array((header + stanza(993) + "<b/>").utf8).pieces(of: size), limits: limits)
            #expect(good.failure == nil && good.stanzas.count == 2, "\(size)")
            #expect(good.stanzas.first?.elements.first?.text.utf8.count == 993)
            let bad = record(Array((header + stanza(994)).utf8).pieces(of: size), limits: limits)
            #expect(bad.failure?.code == .limit(.stanzaBytes))
        }
        // What looks like references and is none makes a stanza six times as large, and no larger.
        for filler in ["&#00000000000000000000000000", "&amp;&amp;aaaaa", "&"] {
            let text = header + "<a><![CDATA[" + String(repeating: filler, count: 10_000 / filler.utf8.count)
            for size in [1, 100, 1 << 20] {
                let framer = XMLFramer(limits: limits)
                for piece in Array(text.utf8).pieces(of: size) {
                    try? framer.feed(piece) { _ in }
                    #expect(framer.builder.pointee.raw.count <= 6 * limits.stanzaBytes)
                }
                #expect(framer.failure?.code == .limit(.stanzaBytes), "\(filler) \(size)")
            }
        }
    }

    @Test("256 KB of text in pieces of one byte")
    func textByteByByte() {
        let text = stanza(bytes: 256 * 1024)
        let recording = record(Array((header + text).utf8).pieces(of: 1))
        #expect(recording.failure == nil)
        #expect(recording.stanzas.first?.raw == text)
        #expect(recording.stanzas.first?.elements.first?.text.utf8.count == 256 * 1024 - 7)
    }

    @Test("text torn by thousands of children is joined in linear space")
    func tornText() throws {
        let text = "<a>" + String(repeating: "x<b/>", count: 4000) + "</a>"
        let framer = XMLFramer()
        let bytes = Array((header + text).utf8)
        var stored = 0
        try framer.feed(bytes) { event in
            guard case .stanza(let stanza) = event else { return }
            stored = stanza.bytes.count
            #expect(stanza.elements[0].text.count == 4000)
        }
        #expect(stored > 0 && stored < 2 * text.utf8.count)
    }
}
