import Testing

@testable import XMPP

@Suite("Queries: what others may ask us, and what they get")
struct QueryResponderTests {
    private static func error(_ kind: String, _ condition: String) -> String {
        "<error type=\"\(kind)\"><\(condition) xmlns=\"urn:ietf:params:xml:ns:xmpp-stanzas\"/></error>"
    }

    private static func reply(_ xml: String, _ asker: QueryResponder.Asker = .server) throws -> String? {
        var responder = QueryResponder(version: "1.2<3", now: 0)
        return responder.reply(to: try stanza(xml), from: asker, now: 0).map(text)
    }

    private static let version = "<iq type='get' id='v'><query xmlns='jabber:iq:version'/></iq>"
    private static let info =
        "<iq type='get' id='d'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>"
    private static let items =
        "<iq type='get' id='i'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>"

    @Test("name and version, never the operating system; what we are, and nothing we are not")
    func whatWeAre() throws {
        #expect(
            try QueryResponderTests.reply(QueryResponderTests.version)
                == "<iq type=\"result\" id=\"v\"><query xmlns=\"jabber:iq:version\"><name>upstream-worker</name>"
                + "<version>1.2&lt;3</version></query></iq>"
        )
        #expect(
            try QueryResponderTests.reply(QueryResponderTests.info)
                == "<iq type=\"result\" id=\"d\"><query xmlns=\"http://jabber.org/protocol/disco#info\">"
                + "<identity category=\"client\" type=\"bot\" name=\"upstream-worker\"/>"
                + "<feature var=\"http://jabber.org/protocol/disco#info\"/>"
                + "<feature var=\"http://jabber.org/protocol/disco#items\"/><feature var=\"jabber:iq:version\"/>"
                + "<feature var=\"urn:xmpp:ping\"/></query></iq>"
        )
        #expect(
            try QueryResponderTests.reply(QueryResponderTests.items)
                == "<iq type=\"result\" id=\"i\"><query xmlns=\"http://jabber.org/protocol/disco#items\"/></iq>"
        )
        for query in [QueryResponderTests.info, QueryResponderTests.items] {
            let node = query.replacing("'/></iq>", with: "' node='x'/></iq>")
            #expect(try QueryResponderTests.reply(node)?.contains("item-not-found") == true)
        }
    }

    @Test("a stranger may ping us, and learns nothing else")
    func strangers() throws {
        for query in [QueryResponderTests.version, QueryResponderTests.info, QueryResponderTests.items] {
            let answer = try QueryResponderTests.reply(query, .stranger)
            #expect(answer?.hasSuffix(QueryResponderTests.error("cancel", "service-unavailable") + "</iq>") == true)
            #expect(try QueryResponderTests.reply(query, .trusted)?.contains("result") == true)
        }
        let ping = "<iq type='get' id='p' from='eve@x/y'><ping xmlns='urn:xmpp:ping'/></iq>"
        #expect(try QueryResponderTests.reply(ping, .stranger) == "<iq type=\"result\" id=\"p\" to=\"eve@x/y\"/>")
    }

    @Test(
        "what is malformed is told so, what is unknown too; results and errors never",
        arguments: [
            ("<iq type='get' id='1'/>", "bad-request"), ("<iq type='set' id='1'>text</iq>", "bad-request"),
            ("<iq type='get' id='1'><a xmlns='x'/><ping xmlns='urn:xmpp:ping'/></iq>", "bad-request"),
            ("<iq type='GET' id='1'><ping xmlns='urn:xmpp:ping'/></iq>", "bad-request"),
            ("<iq type='' id='1'><ping xmlns='urn:xmpp:ping'/></iq>", "bad-request"),
            ("<iq id='1'><ping xmlns='urn:xmpp:ping'/></iq>", "bad-request"),
            ("<iq type='get' id='1'><ping xmlns='urn:xmpp:pong'/></iq>", "service-unavailable"),
            ("<iq type='set' id='1'><ping xmlns='urn:xmpp:ping'/></iq>", "service-unavailable"),
            ("<iq type='set' id='1'><query xmlns='jabber:iq:version'/></iq>", "service-unavailable"),
            ("<iq type='set' id='1'><query xmlns='jabber:iq:roster'/></iq>", "service-unavailable"),
            ("<iq type='result' id='1'><ping xmlns='urn:xmpp:ping'/></iq>", nil),
            ("<iq type='error' id='1'><ping xmlns='urn:xmpp:ping'/></iq>", nil),
            ("<iq type='get'><ping xmlns='urn:xmpp:ping'/></iq>", nil),
            ("<iq type='get' id=''><ping xmlns='urn:xmpp:ping'/></iq>", nil),
            ("<iq xmlns='x' type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>", nil),
        ] as [(String, String?)]
    )
    func table(_ xml: String, _ condition: String?) throws {
        let answer = try QueryResponderTests.reply(xml)
        guard let condition else { return #expect(answer == nil, "\(xml)") }
        #expect(answer?.contains("<\(condition) ") == true && answer?.contains("type=\"error\"") == true, "\(xml)")
    }

    @Test("what is echoed is bounded and can't break out")
    func echoes() throws {
        let long = String(repeating: "i", count: 1_025)
        #expect(try QueryResponderTests.reply("<iq type='get' id='\(long)'><ping xmlns='urn:xmpp:ping'/></iq>") == nil)
        let odd = "<iq type='get' id='&quot;&gt;&lt;/iq&gt;' from='a&quot;b@x'><ping xmlns='urn:xmpp:ping'/></iq>"
        #expect(
            try QueryResponderTests.reply(odd)
                == "<iq type=\"result\" id=\"&quot;&gt;&lt;/iq&gt;\" to=\"a&quot;b@x\"/>"
        )
    }

    @Test("strangers get 50 answers at once and 10 a second; the server gets every answer, and the trusted are apart")
    func bounds() throws {
        let second: UInt64 = 1_000_000_000
        var responder = QueryResponder(version: "1", now: 0)
        let ping = try stanza("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>")
        func answers(_ count: Int, _ asker: QueryResponder.Asker, at now: UInt64) -> Int {
            (0..<count).count { _ in responder.reply(to: ping, from: asker, now: now) != nil }
        }
        #expect(answers(1_000, .stranger, at: 10 * second) == 50)
        #expect(answers(1_000, .server, at: 10 * second) == 1_000)
        #expect(answers(1_000, .trusted, at: 10 * second) == 50)
        #expect(answers(1_000, .stranger, at: 11 * second) == 10)
        #expect(answers(1_000, .stranger, at: 11 * second) == 0)
        #expect(answers(1_000, .stranger, at: 3_600 * second) == 50)
        // A clock that stands still, or goes back, gives nothing away.
        #expect(answers(1_000, .stranger, at: 0) == 0)
        // Results and errors use nothing up.
        let result = try stanza("<iq type='result' id='p'/>")
        for _ in 0..<1_000 { _ = responder.reply(to: result, from: .stranger, now: 7_200 * second) }
        #expect(answers(1_000, .stranger, at: 7_200 * second) == 50)
    }

    @Test("who asks is told by the address that the server stamps")
    func askers() throws {
        func answer(_ from: String?) throws -> String {
            var session = try makeSession(.missing)
            let address = from.map { " from='\($0)'" } ?? ""
            let query = QueryResponderTests.version.replacing(" id='v'", with: " id='v'\(address)")
            guard case .reply(let bytes) = try session.hear(query) else { throw Unexpected("no reply") }
            return text(bytes).contains("<version>") ? "told" : "not told"
        }
        for known in [
            nil, "fcm.googleapis.com", "1234567890@fcm.googleapis.com", "1234567890@fcm.googleapis.com/x",
            "devices@gcm.googleapis.com/7",
        ] { #expect(try answer(known) == "told", "\(known ?? "")") }
        for stranger in ["eve@fcm.googleapis.com", "fcm.googleapis.com.evil", "x@gcm.googleapis.com", "@@", ""] {
            #expect(try answer(stranger) == "not told", "\(stranger)")
        }
    }
}
