import Testing
import XMLWire

@testable import XMPP

/// The handshake of an external component, as conversations.
@Suite struct ComponentNegotiationTests {
    private static let opening =
        "<?xml version='1.0'?><stream:stream xmlns:stream='http://etherx.jabber.org/streams' "
        + "xmlns='jabber:component:accept' from='upstream.example.com' id='3BF96D32'>"
    private static let accepted = "<handshake/>"
    private static let closing = "</stream:stream>"

    private static func opening(id: String?, version: String = "") -> String {
        "<stream:stream xmlns:stream='http://etherx.jabber.org/streams' xmlns='jabber:component:accept'\(version)"
            + (id.map { " id='\($0)'" } ?? "") + ">"
    }

    private static func error(_ condition: String) -> String {
        "<stream:error><\(condition) xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"
            + "<text xmlns='urn:ietf:params:xml:ns:xmpp-streams'>FAKE-words</text></stream:error>"
    }

    private static func negotiation(_ secret: String = "test", clear: Bool = false) -> Negotiation {
        Negotiation(
            StreamSettings(senderID: "upstream", domain: "upstream.example.com", dialect: .component),
            secret: Secret(Array(secret.utf8)),
            mode: clear ? .none : .direct,
            idPrefix: "r4nd",
            nonce: []
        )
    }

    /// What a server's words, cut into pieces, make a negotiation say and end with.
    private struct Talk: Equatable {
        var sent: [String] = []
        var end = ""

        mutating func note(_ action: Negotiation.Action) {
            switch action {
            case .none: break
            case .send(let bytes): sent.append(XMPPTests.text(bytes))
            default: end = NegotiationTests.word(action)
            }
        }
    }

    private static func talk(_ text: String, pieces: Int = .max, secret: String = "test") throws -> Talk {
        var negotiation = negotiation(secret)
        var talk = Talk()
        guard case .send(let header) = negotiation.transportReady(encrypted: true) else {
            throw Unexpected("no header")
        }
        talk.sent.append(XMPPTests.text(header))
        let framer = XMLFramer()
        let bytes = Array(text.utf8)
        var offset = 0
        while offset < bytes.count {
            let end = offset + min(pieces, bytes.count - offset)
            try bytes[offset..<end].withUnsafeBytes { piece in
                try framer.feed(piece) { event in
                    switch event {
                    case .opened(let header): talk.note(negotiation.opened(header))
                    case .stanza(let stanza): talk.note(negotiation.stanza(stanza, trailingBytes: 0))
                    case .closed:
                        if let error = negotiation.ended(.streamClosed) { talk.end = "fail \(error.code.rawValue)" }
                    case .skipped: break
                    }
                }
            }
            offset = end
        }
        return talk
    }

    @Test(
        "header, handshake, accepted: whole, byte by byte, and torn anywhere",
        arguments: [Int.max] + Array(1...9)
    )
    func conversation(_ pieces: Int) throws {
        let talk = try ComponentNegotiationTests.talk(
            ComponentNegotiationTests.opening + ComponentNegotiationTests.accepted,
            pieces: pieces
        )
        let sent = try header(talk.sent[0])
        #expect(sent.attribute("to", of: 0).map { sent.string($0) } == "upstream.example.com")
        #expect(talk.sent[0].contains("xmlns=\"jabber:component:accept\""))
        // There are no features in a stream without a version.
        #expect(!talk.sent[0].contains(" version=\"1.0\" "))
        // printf 3BF96D32test | sha1sum
        #expect(talk.sent.dropFirst() == ["<handshake>aaee83c26aeeafcbabeabfcbcd50df997e0a2a1e</handshake>"])
        #expect(talk.end == "bound")
    }

    @Test("the stream is bound to the component's domain, without presence or stream management")
    func bound() throws {
        var negotiation = ComponentNegotiationTests.negotiation()
        _ = negotiation.transportReady(encrypted: true)
        _ = negotiation.opened(try header(ComponentNegotiationTests.opening))
        let answer = try stanza("<handshake xmlns='jabber:component:accept'/>")
        guard case .bound(let stream) = negotiation.stanza(answer, trailingBytes: 0) else {
            throw Unexpected("not bound")
        }
        #expect(stream == BoundStream(address: try #require(JID("upstream.example.com")), greeting: []))
        #expect(stream.management == .unused)
        #expect(negotiation.ended(.streamClosed) == nil && negotiation.ended(.timedOut) == nil)
    }

    @Test("the digest is over the id's text, not over its XML, and over the secret's bytes")
    func escapedID() throws {
        let talk = try ComponentNegotiationTests.talk(
            ComponentNegotiationTests.opening(id: "a&amp;b&quot;&lt;&#252;&gt;"),
            secret: "FAKE-s3cret"
        )
        // printf 'a&b"<ü>FAKE-s3cret' | sha1sum
        #expect(talk.sent.last == "<handshake>c3934057d9a0ce1248027ae27a12a1386abe0309</handshake>")
    }

    @Test("nothing is said in the clear unless the address allows it")
    func clearText() {
        var refused = ComponentNegotiationTests.negotiation()
        guard case .fail(let error) = refused.transportReady(encrypted: false) else {
            Issue.record("went on in the clear")
            return
        }
        #expect(error.code == .notEncrypted)
        var allowed = ComponentNegotiationTests.negotiation(clear: true)
        guard case .send = allowed.transportReady(encrypted: false) else {
            Issue.record("nothing sent")
            return
        }
        // A second call, as from a handler that is told twice.
        guard case .none = allowed.transportReady(encrypted: false) else {
            Issue.record("sent twice")
            return
        }
    }

    @Test("no id, or an empty one: no digest leaves; the stream error that follows is what is told")
    func noID() throws {
        for id in [nil, ""] {
            // Prosody opens its stream in this way in order to say that it knows no such component.
            let start = ComponentNegotiationTests.opening(id: id, version: " version='1.0'")
            for (next, end) in [
                (ComponentNegotiationTests.error("host-unknown"), "fail stream_error"),
                (ComponentNegotiationTests.accepted, "fail bad_stream"), ("<message/>", "fail bad_stream"),
                (ComponentNegotiationTests.closing, "fail bad_stream"),
            ] {
                let talk = try ComponentNegotiationTests.talk(start + next)
                #expect(talk.sent.count == 1 && talk.end == end, "\(next)")
            }
        }
    }

    @Test("an id of more than 1,024 bytes is refused before a digest is made of it")
    func hugeID() throws {
        let fits = String(repeating: "x", count: Negotiation.idLimit)
        #expect(try ComponentNegotiationTests.talk(ComponentNegotiationTests.opening(id: fits)).sent.count == 2)
        let talk = try ComponentNegotiationTests.talk(ComponentNegotiationTests.opening(id: fits + "x"))
        #expect(talk.sent.count == 1 && talk.end == "fail bad_stream")
    }

    @Test(
        "what is not the server's answer is passed over: features, stanzas that come too early, a handshake of another namespace",
        arguments: [
            "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism>"
                + "</mechanisms></stream:features>",
            "<message from='a@example.com' to='b@upstream.example.com'><gcm xmlns='google:mobile:data'>{}</gcm></message>",
            "<handshake xmlns='jabber:client'/>", "<handshake xmlns='urn:x'/>", "<x:handshake xmlns:x='urn:x'/>",
            "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>", "<iq type='result'/>", "<x><handshake/></x>",
            "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
        ]
    )
    func otherWords(_ words: String) throws {
        let before = try ComponentNegotiationTests.talk(ComponentNegotiationTests.opening + words)
        #expect(before.end == "" && before.sent.count == 2)
        let after = try ComponentNegotiationTests.talk(
            ComponentNegotiationTests.opening + words + ComponentNegotiationTests.accepted
        )
        #expect(after.end == "bound" && after.sent.count == 2)
    }

    @Test("an acceptance of any content counts; it never proved anything but that the server has let us in")
    func acceptance() throws {
        for words in [
            "<handshake></handshake>", "<handshake>aaee83c26aeeafcbabeabfcbcd50df997e0a2a1e</handshake>",
            "<c:handshake xmlns:c='jabber:component:accept'/>",
        ] {
            let talk = try ComponentNegotiationTests.talk(ComponentNegotiationTests.opening + words)
            #expect(talk.end == "bound", "\(words)")
        }
    }

    @Test("what a server says against a component names the cause and the fix, and never the secret")
    func refusals() throws {
        let rows: [(String, NegotiationError.Code, Bool, String)] = [
            ("not-authorized", .authenticationRefused, true, "component_secret"),
            ("host-unknown", .streamError, false, "Component \"upstream.example.com\""),
            ("conflict", .streamError, false, "component_conflict_resolve"),
            ("invalid-namespace", .streamError, false, "`port`"),
            ("policy-violation", .streamError, false, "server's log"),
            ("system-shutdown", .streamError, false, "server's log"),
        ]
        for (condition, code, isAuthentication, word) in rows {
            var negotiation = ComponentNegotiationTests.negotiation("FAKE-secret")
            _ = negotiation.transportReady(encrypted: true)
            _ = negotiation.opened(try header(ComponentNegotiationTests.opening))
            let error = try stanza(ComponentNegotiationTests.error(condition))
            guard case .fail(let failure) = negotiation.stanza(error, trailingBytes: 0) else {
                throw Unexpected(condition)
            }
            #expect(failure.code == code && failure.condition == condition)
            #expect(failure.code.isAuthentication == isAuthentication)
            #expect(failure.message.contains(condition) && failure.message.contains(word), "\(failure.message)")
            #expect(!failure.message.contains("FAKE-"), "\(failure.message)")
            // It is over: nothing counts any more.
            #expect(
                NegotiationTests.word(negotiation.stanza(error, trailingBytes: 0)) == "-"
                    && negotiation.ended(.transportClosed) == nil
            )
        }
    }

    @Test("an end before the acceptance says where it came")
    func ends() throws {
        var idle = ComponentNegotiationTests.negotiation()
        #expect(idle.ended(.transportClosed)?.code == .closed)
        var silent = ComponentNegotiationTests.negotiation()
        _ = silent.transportReady(encrypted: true)
        let timeout = silent.ended(.timedOut)
        #expect(timeout?.code == .timedOut && timeout?.message.contains("tls.mode") == true)
        #expect(silent.ended(.timedOut) == nil)
        var cut = ComponentNegotiationTests.negotiation()
        _ = cut.transportReady(encrypted: true)
        _ = cut.opened(try header(ComponentNegotiationTests.opening))
        #expect(cut.ended(.transportClosed)?.message.contains("handshake") == true)
        var twice = ComponentNegotiationTests.negotiation()
        _ = twice.transportReady(encrypted: true)
        _ = twice.opened(try header(ComponentNegotiationTests.opening))
        guard case .fail(let again) = twice.opened(try header(ComponentNegotiationTests.opening)) else {
            throw Unexpected("a second header")
        }
        #expect(again.code == .badStream)
    }
}
