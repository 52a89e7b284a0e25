import Testing

@testable import XMLWire

@Suite("A stanza that is too deep or too wide is skipped, and the stream goes on")
struct FramerSkippingTests {
    /// A stanza that a limit lets through, one more of the same, and what the limit is.
    struct Case: CustomTestStringConvertible {
        var good: String
        var bad: String
        var reason: SkippedStanza.Reason

        var testDescription: String { "\(reason) \(bad.utf8.count)" }
    }

    private static func many(_ count: Int, _ part: (Int) -> String) -> String { (0..<count).map(part).joined() }
    private static func nested(_ depth: Int) -> String { many(depth) { _ in "<a>" } + many(depth) { _ in "</a>" } }
    private static func attributes(_ count: Int) -> String { "<a " + many(count) { "n\($0)='' " } + "/>" }
    private static func namespaces(_ count: Int) -> String { "<a " + many(count) { "xmlns:n\($0)='u' " } + "/>" }
    private static func elements(_ count: Int) -> String { "<a>" + many(count - 1) { _ in "<b/>" } + "</a>" }
    private static func named(_ length: Int) -> String { "<a><" + many(length) { _ in "n" } + "/></a>" }
    private static func scopes(_ depth: Int) -> String {
        many(depth) { level in "<a " + many(8) { "xmlns:n\(level)x\($0)='u' " } + ">" } + many(depth) { _ in "</a>" }
    }
    /// 300 bytes a line, with 60 attributes each.
    private static func manyAttributes(_ lines: Int) -> String {
        "<a>" + many(lines) { line in "<b " + many(60) { "n\($0)='' " } + "/>" } + "</a>"
    }

    static let cases = [
        Case(good: nested(64), bad: nested(65), reason: .depth),
        Case(good: nested(64), bad: nested(300), reason: .depth),
        Case(good: nested(64), bad: nested(30_000), reason: .depth),
        Case(good: elements(4096), bad: elements(4097), reason: .elements),
        Case(good: attributes(64), bad: attributes(65), reason: .attributes),
        Case(good: attributes(64), bad: attributes(20_000), reason: .attributes),
        Case(good: namespaces(16), bad: namespaces(17), reason: .namespaces),
        Case(good: scopes(8), bad: scopes(9), reason: .namespaces),
        Case(good: named(49_999), bad: named(60_000), reason: .name),
        Case(good: manyAttributes(100), bad: manyAttributes(400), reason: .memory),
        Case(good: "<a xml:lang='de'/>", bad: "<a><p:b/></a>", reason: .namespace),
        Case(good: "<p:a xmlns:p='u'/>", bad: "<a p:b=''/>", reason: .namespace),
        Case(good: "<a/>", bad: "<a xmlns:p='u' xmlns:q='u' p:x='' q:x=''><![CDATA[</a>]]></a>", reason: .namespace),
    ]

    @Test("the limit passes, one more is skipped to its end, whatever the cut", arguments: cases)
    func skipped(_ width: Case) {
        let text =
            header + width.good + width.bad + " " + width.good + "<message><gcm>x</gcm></message></stream:stream>"
        let bytes = Array(text.utf8)
        let whole = record([bytes])
        #expect(whole.failure == nil && whole.stanzas.count == 3)
        #expect(whole.skipped.map(\.reason) == [width.reason])
        #expect(whole.skipped.map(\.byteCount) == [width.bad.utf8.count])
        #expect(whole.position == .closed)
        for size in [1, 2, 61, 1400, 5000] {
            let cut = record(bytes.pieces(of: size))
            #expect(cut.failure == nil && cut.position == .closed, "pieces of \(size)")
            #expect(cut.stanzas == whole.stanzas && cut.skipped.map(\.byteCount) == whole.skipped.map(\.byteCount))
        }
    }

    @Test(
        "one that is too long is skipped as well where it would come again for ever, of any length and whatever the cut"
    )
    func long() {
        var limits = StreamLimits()
        (limits.stanzaBytes, limits.skipsLongStanzas) = (20_000, true)
        let text = String(repeating: "x", count: 20_000)
        for (bad, reason) in [
            ("<message id='7'>\(text)</message>", SkippedStanza.Reason.length),
            (
                "<message id='7'>" + String(repeating: "<b xmlns='\(text.prefix(9_000))'/>", count: 60) + "</message>",
                .length
            ),
            ("<message id='7' a='\(text)'/>", .length), ("<message id='7'><![CDATA[\(text)]]></message>", .length),
            ("<message id='7'>" + Self.nested(64) + text + "</message>", .depth),
        ] {
            let bytes = Array((header + "<a/>" + bad + "<b/></stream:stream>").utf8)
            for size in [7, 5_000, 1 << 20] {
                let read = record(bytes.pieces(of: size), limits: limits)
                #expect(read.failure == nil && read.position == .closed, "\(bad.prefix(40)) \(size)")
                #expect(read.stanzas.map(\.raw) == ["<a/>", "<b/>"])
                #expect(read.skipped.map(\.reason) == [reason] && read.skipped.map(\.byteCount) == [bad.utf8.count])
            }
        }
        // What fits passes, and nothing else is let through.
        let fitting = "<a>" + text.dropFirst(7) + "</a>"
        let good = record(Array((header + fitting).utf8).pieces(of: 5_000), limits: limits)
        #expect(good.failure == nil && good.skipped.isEmpty && good.stanzas.map(\.raw) == [fitting])
        for (bad, expected) in [
            ("<a>" + text + "<!-- -->", "comment"), ("<a>" + text + "</b>", "not_well_formed"),
            ("</stream:stream" + String(repeating: " ", count: 20_000), "not_well_formed"),
            // Names of open elements are kept.
            (Self.many(20_000) { _ in "<aaaa>" }, "limit"), ("<a><" + text + text, "limit"),
        ] {
            let read = record(Array((header + bad).utf8).pieces(of: 5_000), limits: limits)
            #expect(read.failure?.shortDescription == expected, "\(bad.prefix(20))")
        }
    }

    @Test("the event names what was skipped, and nothing of it is held any more")
    func names() throws {
        let names: [(String, StanzaName)] = [
            ("message", .message), ("presence", .presence), ("iq", .iq), ("c:iq", .iq), ("messages", .other),
            ("r", .other),
        ]
        for (name, expected) in names {
            let framer = XMLFramer()
            var found: [StanzaName] = []
            for piece in Array((header + "<\(name) u:x=''>text</\(name)>").utf8).pieces(of: 3) {
                try framer.feed(piece) { event in
                    guard case .skipped(let stanza) = event else { return }
                    found.append(stanza.name)
                    #expect(framer.unreadBytes < 3)
                }
            }
            #expect(found == [expected])
            #expect(framer.unreadBytes == 0 && !framer.holdsParser)
        }
    }

    @Test(
        "its id is known where that stands before the excess, whatever the cut",
        arguments: [
            ("<iq id='a&amp;1' x='2'>" + nested(64) + "</iq>", "a&1"), ("<iq id=''><u:x/></iq>", ""),
            ("<iq><b id='1'>" + nested(63) + "</b></iq>", nil), ("<iq xmlns:p='u' p:id='1'><u:x/></iq>", nil),
            ("<iq id='" + many(64) { _ in "i" } + "'><u:x/></iq>", many(64) { _ in "i" }),
            ("<iq id='" + many(65) { _ in "i" } + "'><u:x/></iq>", nil),
            ("<iq id='1' u:x=''/>", nil), ("<iq id='1' " + many(64) { "n\($0)='' " } + "/>", nil),
        ] as [(String, String?)]
    )
    func ids(_ stanza: String, _ expected: String?) {
        // The id of the stanza before is not its own.
        let bytes = Array((header + "<iq id='before'/>" + stanza).utf8)
        for size in [1, 7, 5_000] {
            let read = record(bytes.pieces(of: size))
            #expect(read.skipped.map { $0.id.map { String(decoding: $0, as: UTF8.self) } } == [expected], "\(size)")
        }
    }

    @Test("what XMPP forbids, and what is not well-formed, ends the stream inside of one as well")
    func errorsInside() {
        let cases: [(String, String, StanzaName?)] = [
            ("<message p:a=''><!-- x --></message>", "comment", .message),
            ("<message p:a=''><?p x?></message>", "processing_instruction", .message),
            ("<iq p:a=''>&x;</iq>", "entity", .iq),
            ("<iq p:a=''>&#0;</iq>", "not_well_formed", .iq),
            ("<presence p:a=''><b></c></presence>", "not_well_formed", .presence),
            ("<presence p:a=''></presences>", "not_well_formed", .presence),
            ("<r p:a=''>\u{1}</r>", "not_well_formed", .other),
            ("<message p:a=''></stream:stream>", "not_well_formed", .message),
            ("<message p:a=''>" + String(repeating: "x", count: 300_000), "limit", .message),
            ("<message p:a=''>" + String(repeating: "x", count: 300_000) + "</message>", "limit", .message),
            ("<message><a></b></message>", "not_well_formed", .message),
            ("<message", "", nil),
            ("<!-- -->", "comment", .other),
            ("</stream:stream><a/>", "not_well_formed", nil),
            ("text", "text_at_stream_level", nil),
        ]
        for (text, expected, name) in cases {
            for size in [1, 7, 1 << 20] {
                let framer = XMLFramer()
                for piece in Array((header + "<a/>" + text).utf8).pieces(of: size) { try? framer.feed(piece) { _ in } }
                #expect(framer.failure?.shortDescription ?? "" == expected, "\(text.prefix(40)) \(size)")
                #expect(framer.failedStanza == name, "\(text.prefix(40)) \(size)")
            }
        }
    }

    @Test("a restart or a stop may follow a skipped stanza")
    func requests() {
        let text = header + "<message p:a=''/>" + header + "<b/>"
        let restarted = record(text) { framer, event in
            if case .skipped = event { framer.reset() }
        }
        #expect(restarted.failure == nil && restarted.events.count == 4 && restarted.stanzas.count == 1)
        let stopped = record(text) { framer, event in
            if case .skipped = event { framer.stop() }
        }
        #expect(stopped.failure == nil && stopped.events.count == 2)
    }

    @Test("names that never come again are let go of before they take much memory")
    func uniqueNames() throws {
        let framer = XMLFramer()
        try framer.feed(header.utf8) { _ in }
        var most = 0
        for round in 0..<40 {
            let stanza = "<a>" + Self.many(4000) { "<n\(round)x\($0)/>" } + "</a>"
            try framer.feed(stanza.utf8) { event in
                if case .skipped = event { Issue.record("skipped") }
            }
            most = max(most, framer.parser?.nameCount ?? 0)
        }
        #expect(most < XMLFramer.parserNames + 4100)
    }
}
