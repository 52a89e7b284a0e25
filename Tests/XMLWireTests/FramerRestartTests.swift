import Testing

@testable import XMLWire

@Suite("A stream is restarted, stopped and asked for the rest during an event")
struct FramerRestartTests {
    private let proceed = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
    private let success = "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"

    private func isNamed(_ name: String, _ event: RecordedEvent) -> Bool {
        event.elements.first?.name == name
    }

    @Test("after SASL success the rest of the buffer is the new document", arguments: ["", "\n", " \r\n\t"])
    func restart(whitespace: String) {
        let document = "<?xml version='1.0'?>" + header + "<a/>"
        let bytes = Array((document + success + whitespace + document + "<b/></stream:stream>").utf8)
        for size in Array(1...40) + [bytes.count] {
            let recording = record(bytes.pieces(of: size)) { framer, event in
                if isNamed("success", event) { framer.reset() }
            }
            #expect(recording.failure == nil)
            #expect(recording.position == .closed)
            #expect(
                recording.events.map { $0.elements.first?.name } == ["stream", "a", "success", "stream", "a", "b", nil]
            )
        }
    }

    @Test("the new document has its own prefixes")
    func newPrefixes() {
        let recording = record(
            header + success + "<s:stream xmlns:s='http://etherx.jabber.org/streams' xmlns='urn:x'><a/><stream:b/>"
        ) { framer, event in
            if isNamed("success", event) { framer.reset() }
        }
        #expect(recording.stanzas.last?.elements.first?.namespace == "urn:x")
        #expect(recording.failure == nil && recording.skipped.map(\.reason) == [.namespace])
    }

    @Test("without a restart a second document is refused")
    func noRestart() {
        let recording = record("<?xml version='1.0'?>" + header + success + "<?xml version='1.0'?>" + header)
        #expect(recording.failure?.code == .notWellFormed)
    }

    @Test(
        "what follows the event in the buffer is counted",
        arguments: ["", " ", "<a/>", "<a>", "\u{16}\u{3}", "<a/><b"]
    )
    func unread(rest: String) {
        var counts: [Int] = []
        _ = record(header + "<x/>" + proceed + rest) { framer, event in
            guard isNamed("proceed", event) else { return }
            counts.append(framer.unreadBytes)
            framer.stop()
        }
        #expect(counts == [rest.utf8.count])
    }

    @Test("unread bytes are counted over the parser's slices")
    func unreadManySlices() {
        let stanza = "<a>" + String(repeating: "x", count: 993) + "</a>"
        let text = header + String(repeating: stanza, count: 100)
        var counts: [Int] = []
        let recording = record(text) { framer, _ in counts.append(framer.unreadBytes) }
        #expect(recording.stanzas.count == 100)
        #expect(counts == (0...100).map { 100_000 - $0 * 1000 })
    }

    @Test("outside of an event the unfinished bytes are counted")
    func unfinished() throws {
        let framer = XMLFramer()
        var counts: [Int] = []
        for piece in [String(header.prefix(10)), String(header.dropFirst(10)), "  ", "<a", ">b", "</a>", "\n"] {
            try framer.feed(piece.utf8) { _ in }
            counts.append(framer.unreadBytes)
        }
        #expect(counts == [10, 0, 0, 2, 4, 0, 0])
    }

    @Test("after a stop nothing is read, whatever comes")
    func stop() {
        var stream = Array((header + "<a/><b/>").utf8)
        stream += [0xFF, 0x00]
        for size in [1, 3, stream.count] {
            let recording = record(stream.pieces(of: size)) { framer, event in
                if isNamed("a", event) { framer.stop() }
            }
            #expect(recording.events.count == 2)
            #expect(recording.failure == nil)
        }
    }

    @Test("a restart and a stop also follow the header and the end of the stream")
    func otherEvents() {
        let reset = record(header + header + "</stream:stream>" + header + "<a/>") { framer, event in
            if event == .closed || event.elements.count == 1 && framer.unreadBytes > 200 {
                framer.reset()
            }
        }
        #expect(reset.failure == nil)
        #expect(reset.events.map { $0.elements.first?.name } == ["stream", "stream", nil, "stream", "a"])
        let stopped = record(header + "<a/>") { framer, _ in framer.stop() }
        #expect(stopped.events.count == 1)
    }

    @Test("a restart outside of an event gives up what is unfinished")
    func restartBetweenFeeds() throws {
        let framer = XMLFramer()
        var names: [String?] = []
        func feed(_ text: String) throws {
            try framer.feed(text.utf8) { names.append(RecordedEvent($0).elements.first?.name) }
        }
        try feed(header + "<a/><b>unfinished")
        framer.reset()
        #expect(framer.position == .beforeHeader)
        #expect(framer.unreadBytes == 0)
        try feed(header + "<c/>")
        #expect(names == ["stream", "a", "stream", "c"])
    }
}
