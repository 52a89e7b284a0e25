import Testing

@testable import XMLWire

@Suite("Memory stays flat on a long stream")
struct FramerMemoryTests {
    /// 300,000 stanzas whose names, attributes and namespaces never come again.
    private func uniqueNames(_ range: Range<Int>) -> [UInt8] {
        var text = ""
        for number in range {
            text += "<name-\(number) a\(number)='v' xmlns='urn:\(number)'>text \(number)</name-\(number)>"
        }
        return Array(text.utf8)
    }

    @Test("unique names are let go of, and no stanza differs")
    func uniqueNamesAreForgotten() throws {
        let framer = XMLFramer()
        framer.readsPlainStanzas = false
        var number = 0
        var wrong = 0
        var mostNames = 0
        var lastNames = 0
        var parsers = 1
        func feed(_ bytes: ArraySlice<UInt8>) throws {
            try framer.feed(bytes) { event in
                guard case .stanza(let stanza) = event else { return }
                let element = stanza.elements[0]
                let good =
                    stanza.string(element.name) == "name-\(number)"
                    && stanza.string(element.text) == "text \(number)"
                    && stanza.string(element.namespace) == "urn:\(number)"
                    && stanza.raw == uniqueNames(number..<number + 1)
                if !good { wrong += 1 }
                number += 1
                let names = framer.parser?.nameCount ?? 0
                if names < lastNames { parsers += 1 }
                lastNames = names
                mostNames = max(mostNames, names)
            }
        }
        try feed(Array(header.utf8)[...])
        for start in stride(from: 0, to: 300_000, by: 10_000) {
            // Pieces of a size that tears nearly every one in the middle of a stanza.
            for piece in uniqueNames(start..<start + 10_000).pieces(of: 4099) { try feed(piece) }
        }
        #expect(number == 300_000)
        #expect(wrong == 0)
        #expect(parsers > 30)
        // 512 KB hold about 8,400 of these stanzas with three names each.
        #expect(mostNames < 30_000)
    }

    @Test("one large stanza leaves no large storage behind")
    func largeStanza() throws {
        let framer = XMLFramer()
        let bytes = Array((header + "<a>" + String(repeating: "x<b c=''/>", count: 4000) + "</a>").utf8)
        var large = 0
        var lent: Stanza?
        try framer.feed(bytes) { event in
            guard case .stanza(let stanza) = event else { return }
            large = stanza.elements.capacity
            lent = stanza
        }
        #expect(lent?.bytes.capacity == 0 && lent?.elements.capacity == 0 && lent?.raw.capacity == 0)
        #expect(large > 4000)
        #expect(framer.builder.pointee.capacity <= 4 * 16 * 1024)
    }

    @Test("memory can be released between any two stanzas")
    func release() throws {
        let pieces = [header] + Corpus.stanzas + ["</stream:stream>"]
        let framer = XMLFramer()
        var events: [RecordedEvent] = []
        for piece in pieces {
            try framer.feed(piece.utf8) { events.append(RecordedEvent($0)) }
            framer.releaseMemory()
            #expect(framer.parser == nil)
        }
        #expect(events == record(pieces.joined()).events)
        #expect(framer.position == .closed)
    }

    @Test("nothing is released inside a stanza, nor during an event")
    func noRelease() {
        let pieces = ["<stream:str", String(header.dropFirst(11)), "<a>x", "y</a><b/>", "</stream:stream>"].map {
            Array($0.utf8)
        }
        let framer = XMLFramer()
        var texts: [String] = []
        for piece in pieces {
            try? framer.feed(piece) { event in
                framer.releaseMemory()
                texts += RecordedEvent(event).elements.map(\.text)
            }
            framer.releaseMemory()
        }
        #expect(texts == ["", "xy", ""])
        #expect(framer.position == .closed)
    }
}
