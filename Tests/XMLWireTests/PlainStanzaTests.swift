import Testing

@testable import XMLWire

@Suite("Ordinary stanzas are read without libxml2, to the same result")
struct PlainStanzaTests {
    private static let json =
        #"{"data":{"n":"1","body":"é€😀 said \"yes\" [1,2] ]] a<b&c>d it's"},"from":"t","message_id":"m1"}"#

    /// A payload in all the ways that servers write it.
    static let ordinary: [String] = {
        let escaped = json.reduce(into: "") { text, character in
            switch character {
            case "&": text += "&amp;"
            case "<": text += "&lt;"
            case ">": text += "&gt;"
            default: text.append(character)
            }
        }
        let quoted = escaped.reduce(into: "") { text, character in
            switch character {
            case "\"": text += "&quot;"
            case "'": text += "&apos;"
            default: text.append(character)
            }
        }
        return [
            "<message from='devices@gcm.googleapis.com' to=\"1@gcm\" type='normal'>"
                + "<gcm xmlns=\"google:mobile:data\">\(escaped)</gcm></message>",
            "<message><data:gcm xmlns:data='google:mobile:data'>\(quoted)</data:gcm></message>",
            "<message id='' xml:lang='en'><gcm xmlns='google:mobile:data'><![CDATA[\(json)]]></gcm></message>",
            "<message xmlns='jabber:client' to='a>b'><gcm xmlns='google:mobile:data'>\(quoted)</gcm>"
                + "<delay xmlns='urn:xmpp:delay' stamp='2025-01-01T00:00:00Z'/></message>",
            "<message from='a@b/c' id='1'><json xmlns='urn:xmpp:json:0'>\(quoted)</json>"
                + "<origin-id xmlns='urn:xmpp:sid:0' id='o'/><request xmlns='urn:xmpp:receipts'/></message>",
            "<m:message xmlns:m='jabber:client'><x><![CDATA[a]]>b<![CDATA[]]>\n\tc</x><y ></y></m:message>",
            "<r xmlns='urn:xmpp:sm:3'/>",
        ]
    }()

    /// Whether a framer without a parser reads the stanza without making one.
    private func isReadPlain(_ stanza: String, limits: StreamLimits = StreamLimits()) throws -> Bool {
        let framer = XMLFramer(limits: limits)
        try framer.feed(Array(header.utf8)) { _ in }
        framer.releaseMemory()
        var isStanza = false
        try? framer.feed(Array(stanza.utf8)) { if case .stanza = $0 { isStanza = true } }
        return isStanza && !framer.holdsParser
    }

    @Test("what servers write needs no parser", arguments: ordinary)
    func ordinaryForms(stanza: String) throws {
        #expect(try isReadPlain(stanza))
        let pieces = [Array(stanza.utf8)]
        let read = recordStanzas(pieces, plain: true)
        #expect(read.stanzas.count == 1)
        #expect(read == recordStanzas(pieces, plain: false))
    }

    @Test(
        "anything else is left to libxml2",
        arguments: [
            "<message>a&#65;b</message>", "<message>a\r\nb</message>", "<message>]]></message>",
            "<message><!-- --></message>", "<message><?p?></message>", "<message>&other;</message>",
            "<message a='1' a='2'/>", "<message xml:lang='a' xml:lang='b'/>", "<message a='&amp;'/>",
            "<message a='<'/>", "<message a='\u{e9}'/>", "<message a='1'b='2'/>", "<message\na='1'/>",
            "<message a = '1'/>", "<message xmlns=''/>", "<message xmlns:a='x' xmlns:a='y'/>",
            "<message xmlns:xml='urn:x'/>", "<message xmlns:x='http://www.w3.org/2000/xmlns/'/>",
            "<message xmlns:x='a b'/>", "<x:message/>", "<stream:features/>", "<message><x:y/></message>",
            "<message><a></b></message>", "<message></message >", "<m\u{e9}/>", "<1/>", "<:a/>", "<a:/>",
            "<message>a<b/>c</message>", "<message>\u{ffff}</message>", "<message>\u{1}</message>",
            "<message><![CDATA[\r]]></message>", "<message><![CDATA[\u{fffe}]]></message>", "<message xml:space='a'/>",
            "<message x:y='z' xmlns:x='urn:x'/>", "</stream:stream>", "<message", "<message>", "<message>a",
        ]
    )
    func otherForms(stanza: String) throws {
        #expect(try !isReadPlain(stanza))
        let pieces = [Array(stanza.utf8), Array("<a/>".utf8)]
        #expect(recordStanzas(pieces, plain: true) == recordStanzas(pieces, plain: false))
    }

    @Test("every limit holds as it does for libxml2")
    func limits() throws {
        for stanza in Self.ordinary {
            let bytes = Array(stanza.utf8)
            func compare(_ change: (inout StreamLimits) -> Void) {
                var limits = StreamLimits()
                change(&limits)
                func read(plain: Bool) -> Recording {
                    recordStanzas([bytes, bytes], behind: narrowHeader, limits: limits, plain: plain)
                }
                #expect(read(plain: true) == read(plain: false))
            }
            for size in [bytes.count - 1, bytes.count, bytes.count + 1] { compare { $0.stanzaBytes = size } }
            for count in 1...4 {
                compare { $0.depth = count }
                compare { $0.elements = count }
                compare { $0.attributes = count }
                compare { $0.namespaces = count }
            }
            compare { $0.attributes = 0 }
            compare { $0.namespaces = 0 }
        }
    }

    @Test("a deep, wide or long stanza is left to libxml2")
    func bounds() throws {
        let deep = String(repeating: "<a>", count: 9) + String(repeating: "</a>", count: 9)
        let wide = "<a>" + String(repeating: "<b/>", count: 16) + "</a>"
        let attributes = "<a" + (1...17).map { " a\($0)=''" }.joined() + "/>"
        let declarations = "<a" + (1...9).map { " xmlns:n\($0)='urn:n'" }.joined() + "/>"
        let long = "<a>" + String(repeating: "x", count: PlainStanzaReader.maximumBytes) + "</a>"
        for stanza in [deep, wide, attributes, declarations, long] {
            #expect(try !isReadPlain(stanza))
            let pieces = [Array(stanza.utf8)]
            #expect(recordStanzas(pieces, plain: true) == recordStanzas(pieces, plain: false))
        }
    }

    @Test("a namespace that the header declares applies, and none where it declares none")
    func headerNamespace() throws {
        let root = "<stream:stream xmlns:stream='http://etherx.jabber.org/streams'"
        for (declaration, namespace) in [("", ""), (" xmlns='urn:other'", "urn:other"), (" xmlns='a&amp;b'", "a&b")] {
            let framer = XMLFramer()
            try framer.feed(Array((root + declaration + ">").utf8)) { _ in }
            var found: [String] = []
            try framer.feed(Array("<message><x/></message>".utf8)) {
                found += RecordedEvent($0).elements.map(\.namespace)
            }
            #expect(found == [namespace, namespace])
        }
    }

    @Test("mutations of ordinary stanzas give the same events and errors", arguments: 0..<8)
    func mutations(seed: Int) {
        var random = Mutator(state: UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        let seeds = (Self.ordinary + Corpus.stanzas.filter { $0.utf8.count < 1000 }).map { Array($0.utf8) }
        let neighbour = Array(Self.ordinary[0].utf8)
        var accepted = 0
        for _ in 0..<1500 {
            var stanza = seeds[random.below(seeds.count)]
            for _ in 0...random.below(3) { random.mutate(&stanza) }
            let stream = neighbour + stanza + neighbour
            let cut = random.below(2 * stream.count)
            var pieces = cut < stream.count ? [stream[..<cut], stream[cut...]] : [stream[...]]
            // A stanza that is cut is read without the parser at its first cut only.
            if let last = pieces.last, cut % 3 == 0 {
                let next = last.startIndex + random.below(last.count)
                pieces[pieces.count - 1] = last[..<next]
                pieces.append(last[next...])
            }
            let read = recordStanzas(pieces, plain: true)
            guard read == recordStanzas(pieces, plain: false) else {
                Issue.record("differs: \(String(decoding: stanza, as: UTF8.self)), cut at \(cut)")
                return
            }
            if read.failure == nil { accepted += 1 }
        }
        // Else the comparison would be of errors alone.
        #expect(accepted > 200)
    }
}

/// Changes bytes, always in the same way for the same seed.
private struct Mutator {
    var state: UInt64

    private static let tokens: [[UInt8]] =
        [
            "]]>", "]]", ">", "<", "&", "&quot;", "&#13;", "&amp;", "<![CDATA[", "]]>", "<a/>", "</a>", "<a>", " ",
            "\n",
            "\r", "\t", "'", "\"", " xmlns='urn:x'", " xmlns:a='urn:a'", " a='b'", " xml:lang='de'", "a:", ":", "/",
            "é",
            "\u{ffff}", "\u{fffd}", "\u{10ffff}", "<!-- -->", "<?p q?>", "<stream:x/>", "xmlns", ";", "=",
        ].map { Array($0.utf8) } + [
            [0x80], [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xEF, 0xBF, 0xBE], [0x7F], [0x00], [0xF4],
        ]

    mutating func below(_ bound: Int) -> Int {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return Int(state % UInt64(max(bound, 1)))
    }

    mutating func mutate(_ bytes: inout [UInt8]) {
        guard !bytes.isEmpty else { return }
        let at = below(bytes.count)
        let end = min(at + 1 + below(12), bytes.count)
        switch below(6) {
        case 0: bytes.removeSubrange(at..<end)
        case 1: bytes.insert(contentsOf: Array(bytes[at..<end]), at: below(bytes.count))
        case 2: bytes[at] = UInt8(truncatingIfNeeded: below(256))
        case 3: bytes[at] ^= 1 << UInt8(below(8))
        default: bytes.insert(contentsOf: Self.tokens[below(Self.tokens.count)], at: at)
        }
    }
}
