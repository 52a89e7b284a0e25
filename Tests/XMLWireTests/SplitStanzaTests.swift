import Testing

@testable import XMLWire

@Suite("A stanza that one cut goes through is read without libxml2, to the same result")
struct SplitStanzaTests {
    /// A framer without a parser, behind the stream's header.
    private func framer(behind start: String = header, limits: StreamLimits = StreamLimits()) throws -> XMLFramer {
        let framer = XMLFramer(limits: limits)
        try framer.feed(Array(start.utf8)) { _ in }
        framer.releaseMemory()
        return framer
    }

    @Test("a cut anywhere in what servers write needs no parser", arguments: PlainStanzaTests.ordinary)
    func cutInTwo(stanza: String) throws {
        let bytes = Array(stanza.utf8)
        let expected = recordStanzas([bytes[...], bytes[...]], plain: false)
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
        let expected = recordStanzas([stanza[...], stanza[...]], plain: false)
        for first in stride(from: 1, to: stanza.count - 1, by: 7) {
            for second in stride(from: first + 1, to: stanza.count, by: 5) {
                let pieces = [stanza[..<first], stanza[first..<second], stanza[second...] + stanza]
                #expect(recordStanzas(pieces, plain: true) == expected, "cut at \(first) and \(second)")
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
            #expect(
                recordStanzas([stanza[..<cut], stanza[cut...]], plain: true)
                    == recordStanzas([stanza[...]], plain: false)
            )
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
        #expect(recordStanzas([bytes[...]], plain: true) == recordStanzas([bytes[...]], plain: false))
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

    @Test(
        "one with too much in it is skipped and measured from its first byte, also where the excess comes behind the cut",
        arguments: [
            ("<message><x><", "y>t</y></x></message>", SkippedStanza.Reason.depth),
            ("<message a='1' ", "b='2'>t</message>", .attributes),
            ("<message a='1'><x a='1' ", "b='2'/>t</message>", .attributes),
        ]
    )
    func skipped(begun: String, excess: String, reason: SkippedStanza.Reason) throws {
        var limits = StreamLimits()
        (limits.depth, limits.attributes) = (2, 1)
        let bytes = Array((begun + excess).utf8)
        for cut in 1..<bytes.count {
            let pieces = [bytes[..<cut], bytes[cut...] + Array("<b>x</b>".utf8)]
            let read = recordStanzas(pieces, behind: narrowHeader, limits: limits, plain: true)
            #expect(
                read == recordStanzas(pieces, behind: narrowHeader, limits: limits, plain: false),
                "cut at \(cut)"
            )
            #expect(read.skipped == [SkippedStanza(reason: reason, name: .message, byteCount: bytes.count)])
            #expect(read.stanzas.count == 1 && read.failure == nil)

            let framer = try framer(behind: narrowHeader, limits: limits)
            try framer.feed(bytes[..<cut]) { _ in }
            #expect(framer.held.waitsForRest == (cut <= begun.utf8.count), "cut at \(cut)")
        }
    }

    @Test(
        "the limit of its size holds to the byte, and as soon as it is reached",
        arguments: ["<message a='b'>text</message>", "<message>&quot;x&amp;&quot;</message>"]
    )
    func sizeLimit(stanza: String) {
        let bytes = Array(stanza.utf8)
        var measured = StanzaSize()
        bytes.withUnsafeBytes { measured.add($0) }
        let size = measured.bytes
        for limit in [size - 1, size, size + 1, bytes.count - 1, bytes.count, bytes.count + 1] {
            var limits = StreamLimits()
            limits.stanzaBytes = limit
            for cut in 1..<bytes.count {
                func record(plain: Bool) -> [Recording] {
                    let pieces = [bytes[..<cut], bytes[cut...] + bytes]
                    return [1, 2].map { recordStanzas(Array(pieces.prefix($0)), limits: limits, plain: plain) }
                }
                let read = record(plain: true)
                let failure: XMLStreamError.Code? = limit < size ? .limit(.stanzaBytes) : nil
                #expect(read == record(plain: false), "limit \(limit), cut at \(cut)")
                #expect(read[1].failure?.code == failure)
                #expect(read[1].stanzas.count == (limit < size ? 0 : 2))
            }
        }
    }

    @Test("a document that begins behind it is read on in the same buffer")
    func restart() {
        let stanza = Array("<a>xy</a>".utf8)
        let next = Array((header + "<b>z</b><c>").utf8)
        for cut in 1..<stanza.count {
            func read(plain: Bool) -> (recording: Recording, unread: [Int]) {
                var unread: [Int] = []
                let pieces = [Array(header.utf8)[...], stanza[..<cut], stanza[cut...] + next]
                let recording = record(pieces, plain: plain) { framer, event in
                    unread.append(framer.unreadBytes)
                    if event.elements.first?.name == "a" { framer.reset() }
                }
                return (recording, unread)
            }
            let plain = read(plain: true)
            let parsed = read(plain: false)
            #expect(plain.recording == parsed.recording && plain.unread == parsed.unread, "cut at \(cut)")
            #expect(plain.unread == [0, next.count, next.count - header.utf8.count, 3], "cut at \(cut)")
            #expect(plain.recording.events.map { $0.elements.first?.name } == ["stream", "a", "stream", "b"])
            #expect(plain.recording.failure == nil && plain.recording.position == .stanza)
        }
    }

    @Test("what waited is read on by the parser that an earlier stanza has left")
    func keptParser() throws {
        let first = Array("<a>&#65;</a>".utf8)
        let second = Array("<b>xy&#66;</b>".utf8)
        let expected = recordStanzas([first + second + second], plain: false)
        #expect(expected.stanzas.map { $0.elements.first?.text } == ["A", "xyB", "xyB"])
        for cut in 1..<second.count {
            let framer = try framer()
            var events = Array(expected.events.prefix(1))
            func feed(_ bytes: some Collection<UInt8>) throws {
                try framer.feed(bytes) { events.append(RecordedEvent($0)) }
            }
            try feed(first)
            #expect(framer.holdsParser)
            try feed(second[..<cut])
            // As far as the `&` of the reference that only libxml2 reads.
            #expect(framer.holdsParser && framer.held.waitsForRest == (cut <= 6), "cut at \(cut)")
            try feed(second[cut...] + second)
            #expect(events == expected.events, "cut at \(cut)")
            #expect(framer.position == .betweenStanzas && framer.unreadBytes == 0)
        }
    }
}
