import Testing

@testable import XMLWire

@Suite("A stanza that one cut goes through is read without libxml2, to the same result")
struct SplitStanzaTests {
    /// A framer without a parser, behind the stream's header.
    private func framer() throws -> XMLFramer {
        let framer = XMLFramer()
        try framer.feed(Array(header.utf8)) { _ in }
        framer.releaseMemory()
        return framer
    }

    private func record(_ pieces: [ArraySlice<UInt8>], plain: Bool) -> Recording {
        let framer = XMLFramer()
        framer.readsPlainStanzas = plain
        var recording = Recording()
        for piece in [Array(header.utf8)[...]] + pieces {
            do throws(XMLStreamError) {
                try framer.feed(piece) { recording.events.append(RecordedEvent($0)) }
            } catch {
                recording.failure = error
            }
        }
        recording.position = framer.position
        recording.keepaliveBytes = framer.keepaliveBytes
        return recording
    }

    @Test("a cut anywhere in what servers write needs no parser", arguments: PlainStanzaTests.ordinary)
    func cutInTwo(stanza: String) throws {
        let bytes = Array(stanza.utf8)
        let expected = record([bytes[...], bytes[...]], plain: false)
        #expect(expected.stanzas.count == 2)
        for cut in 1..<bytes.count {
            let framer = try framer()
            var recording = Recording()
            recording.events = Array(expected.events.prefix(1))
            try framer.feed(bytes[..<cut]) { recording.events.append(RecordedEvent($0)) }
            #expect(recording.events.count == 1 && !framer.holdsParser && framer.position == .stanza)
            #expect(framer.unreadBytes == cut)
            // Another stanza follows in the same buffer.
            try framer.feed(bytes[cut...] + bytes) { event in
                recording.events.append(RecordedEvent(event))
                #expect(framer.unreadBytes == (recording.events.count == 2 ? bytes.count : 0))
            }
            #expect(recording.events == expected.events && !framer.holdsParser, "cut at \(cut)")
            #expect(framer.position == .betweenStanzas && framer.unreadBytes == 0)
        }
    }

    @Test("what comes in more than two pieces is the parser's")
    func cutInThree() throws {
        let stanza = Array(PlainStanzaTests.ordinary[0].utf8)
        let expected = record([stanza[...], stanza[...]], plain: false)
        for first in stride(from: 1, to: stanza.count - 1, by: 7) {
            for second in stride(from: first + 1, to: stanza.count, by: 5) {
                let pieces = [stanza[..<first], stanza[first..<second], stanza[second...] + stanza]
                #expect(record(pieces, plain: true) == expected, "cut at \(first) and \(second)")
            }
        }
        let framer = try framer()
        try framer.feed(stanza[..<10]) { _ in }
        #expect(!framer.holdsParser)
        try framer.feed(stanza[10..<20]) { _ in }
        #expect(framer.holdsParser)
    }

    @Test("so is a stanza of which much stands before the cut, or behind it")
    func longParts() throws {
        let text = String(repeating: "x", count: 6000)
        let stanza = Array("<a>\(text)</a>".utf8)
        for cut in [5000, 1000] {
            let framer = try framer()
            var stanzas = 0
            try framer.feed(stanza[..<cut]) { _ in stanzas += 1 }
            #expect(framer.holdsParser == (cut == 5000))
            try framer.feed(stanza[cut...]) { _ in stanzas += 1 }
            #expect(framer.holdsParser && stanzas == 1)
            #expect(record([stanza[..<cut], stanza[cut...]], plain: true) == record([stanza[...]], plain: false))
        }
    }

    @Test(
        "an error is found as soon as it is there, not with the next read",
        arguments: [
            "<message a='<", "<message a='&lt", "<message><gcm></gcn", "<message></m2", "<message><![CDATX",
            "<message><!-", "<message>&quote", "<message>&q;", "<message>]]>", "<message>\r", "<message a='\r",
        ]
    )
    func promptErrors(begun: String) throws {
        let bytes = Array(begun.utf8)
        #expect(record([bytes[...]], plain: true) == record([bytes[...]], plain: false))
        let framer = try framer()
        try? framer.feed(bytes) { _ in }
        #expect(framer.holdsParser || framer.failure != nil)
    }

    @Test(
        "nor is one in a character of several bytes put off",
        arguments: [[0xE2, 0x28], [0xF0, 0x9F, 0x28], [0xC1]]
    )
    func promptEncodingErrors(character: [UInt8]) throws {
        let framer = try framer()
        try? framer.feed(Array("<a>".utf8) + character) { _ in }
        #expect(framer.holdsParser || framer.failure != nil)
    }

    @Test("the bytes that wait are forgotten with their document, and name the stanza that fails")
    func forgotten() throws {
        let framer = try framer()
        try framer.feed(Array("<a>x".utf8)) { _ in }
        framer.reset()
        #expect(framer.position == .beforeHeader)
        var names: [String] = []
        try framer.feed(Array((header + "<b>y</b><c").utf8)) {
            names += RecordedEvent($0).elements.prefix(1).map(\.name)
        }
        #expect(names == ["stream", "b"])
        #expect(throws: XMLStreamError.self) { try framer.feed(Array(" d=1>".utf8)) { _ in } }
        #expect(framer.failedStanza == StanzaName(startTag: Array("<c d".utf8)))
    }
}
