import Querying
import Testing

@Suite("tokens in quarantined stanzas")
struct StanzaMaskTests {
    private static func masked(_ stanza: String) -> String {
        String(decoding: StanzaMask.mask(Array(stanza.utf8)), as: UTF8.self)
    }

    @Test(
        "a token is masked wherever JSON has it, however JSON and XML write its member",
        arguments: [
            (#"{"from":"SECRET","a":1}"#, #"{"from":"(masked)","a":1}"#),
            (#" {"from" : "SECRET"} "#, #" {"from" : "(masked)"} "#),
            (#"{"from":"SE\"CRET","x":"y"}"#, #"{"from":"(masked)","x":"y"}"#),
            (#"{"\u0066rom":"SECRET"}"#, #"{"\u0066rom":"(masked)"}"#),
            (#"{"from":["SECRET",{"a":"SECRET"}]}"#, #"{"from":"(masked)"}"#),
            (#"{"from":{"a":["SECRET"]},"b":null}"#, #"{"from":"(masked)","b":null}"#),
            (#"{"from":null,"from2":"kept","n":-1.5e3}"#, #"{"from":null,"from2":"kept","n":-1.5e3}"#),
            (#"{"a":[{"from":"S1"},{"from":"S2"}]}"#, #"{"a":[{"from":"(masked)"},{"from":"(masked)"}]}"#),
            (#"{"to":"SECRET","data":{"to":"kept"}}"#, #"{"to":"(masked)","data":{"to":"kept"}}"#),
            (#"{"registration_ids":["SECRET"]}"#, #"{"registration_ids":"(masked)"}"#),
            (#"{"a":[{"registration_id":"SECRET"}]}"#, #"{"a":[{"registration_id":"(masked)"}]}"#),
            (#"{"data":{"device_registration_id":"SECRET"}}"#, #"{"data":{"device_registration_id":"(masked)"}}"#),
            (#"{"data":"{\"device_registration_id\":\"SECRET\"}"}"#, #"{"data":"(masked)"}"#),
            (#"{"data":"{\"\\u0064evice_registration_id\":\"SECRET\"}"}"#, #"{"data":"(masked)"}"#),
            (#"{"data":"[\"{\\\"from\\\":\\\"SECRET\\\"}\"]"}"#, #"{"data":"(masked)"}"#),
            (#"{"{\"device_registration_id\":\"SECRET\"}":1}"#, #"{"(masked)":1}"#),
            (
                #"{&quot;from&quot;:&quot;SECRET&quot;,&quot;a&quot;:1}"#,
                #"{&quot;from&quot;:"(masked)",&quot;a&quot;:1}"#
            ),
            (#"{&#034;from&#x22;:&#34;SEC&amp;RET&#x00022;}"#, #"{&#034;from&#x22;:"(masked)"}"#),
            (#"{"&#102;rom":"SECRET"}"#, #"{"&#102;rom":"(masked)"}"#),
            (#"<![CDATA[{"from":"SECRET"}]]>"#, #"<![CDATA[{"from":"(masked)"}]]>"#),
            (
                #"<![CDATA[{"fr]]><![CDATA[om":"SE]]>CR&#69;<![CDATA[T"}]]>"#,
                #"<![CDATA[{"fr]]><![CDATA[om":"(masked)"}]]>"#
            ),
        ]
    )
    func tokens(_ payload: String, _ shown: String) {
        #expect(
            Self.masked("<message id=\"1\"><gcm xmlns='g'>\(payload)</gcm></message>")
                == "<message id=\"1\"><gcm xmlns='g'>\(shown)</gcm></message>"
        )
    }

    @Test(
        "a text that is no JSON is hidden whole: nobody can tell where its token stands",
        arguments: [
            #"{"from":"SECRET""#, #"{"from":"SECRET\"#, "SECRET", #"{from:"SECRET"}"#, #"{"from":"SECRET"}{}"#,
            #"{"from":"SECRET",}"#, "\u{FEFF}{\"from\":\"SECRET\"}", #"["SECRET" "x"]"#, #"{"a":01,"from":"SECRET"}"#,
            #"{"a":"\x","from":"SECRET"}"#, "{\"a\":\"\u{1}\",\"from\":\"SECRET\"}",
        ]
    )
    func hidden(_ payload: String) {
        #expect(Self.masked("<gcm>\(payload)</gcm>") == "<gcm>(hidden: not JSON)</gcm>")
    }

    @Test("a payload that elements tear is hidden in all its parts, and other elements stay")
    func torn() {
        #expect(
            Self.masked(#"<m from="gcm.googleapis.com"><gcm>{"fr<x/>om":"SECRET"}</gcm><a>1</a> <b/></m>"#)
                == #"<m from="gcm.googleapis.com"><gcm>(hidden: not JSON)<x/>(hidden: not JSON)</gcm><a>1</a> <b/></m>"#
        )
    }

    @Test(
        "a stanza that is no element is hidden whole",
        arguments: [
            "SECRET", "<gcm>SECRET", #"<gcm a="SECRET>"#, "<gcm>&x;SECRET</gcm>", "<gcm><!--SECRET--></gcm>",
            "<?x SECRET?>", "<gcm><![CDATA[SECRET</gcm>", "<gcm/>SECRET", "&", "<", "<gcm>&#xD800;SECRET</gcm>",
            "<gcm>&#x110000;</gcm>", "\"",
        ]
    )
    func unreadable(_ stanza: String) {
        #expect(Self.masked(stanza) == "(hidden: not an XML element)")
    }

    @Test("what is no text is hidden, and nothing stays nothing")
    func bytes() {
        let shown = StanzaMask.mask(Array("<gcm>{\"from\":\"SECRET".utf8) + [0xFF] + Array("\"}</gcm>".utf8))
        #expect(String(decoding: shown, as: UTF8.self) == "<gcm>(hidden: not JSON)</gcm>")
        #expect(StanzaMask.mask([]) == [])
    }

    @Test("a long run of a token's characters is masked in whatever member it stands")
    func run() {
        let token = String(repeating: "aB3_-:", count: 24)
        #expect(Self.masked("<gcm>{\"form\":\"\(token)\"}</gcm>") == #"<gcm>{"form":"(masked)"}</gcm>"#)
        #expect(
            Self.masked("<m to=\"\(token)\"><\(token)>1</\(token)></m>")
                == #"<m to="(masked)"><(masked)>1</(masked)></m>"#
        )
    }
}

@Suite("tokens in what handlers say")
struct TokenTextTests {
    private static let token = "cX3:APA91b-SECRET_0"

    @Test(
        "the message's tokens are masked, whole or cut, in any spelling",
        arguments: [
            ("no device cX3:APA91b-SECRET_0 here", "no device (masked) here"),
            ("no device cX3:APA91b-SECR", "no device (masked)"), ("it is cX3:A", "it is cX3:A"),
            ("404: {\"to\":\"cX3\\u003aAPA91b-SECRET_0\"}", "(masked)"), ("/send?to=cX3%3AAPA91b-SECRET_0", "(masked)"),
            ("400: {\"device_registration_id\":\"other\"} SECRET", "400: {\"device_registration_id(masked)"),
            ("{\"\\u0064evice_registration_id\":\"other\"}", "(masked)"),
            ("a \"quoted\\n\" text, 100%", "a \"quoted\\n\" text, 100%"), ("", ""),
        ]
    )
    func tokens(_ text: String, _ shown: String) {
        #expect(TokenText.mask(text, [Self.token, ""]) == shown)
    }

    @Test("a long run of a token's characters is masked where the message's own tokens are not known")
    func run() {
        let run = String(repeating: "x9", count: 60)
        #expect(TokenText.mask("a \(run), b", []) == "a (masked), b")
    }

    @Test("groups that the project names are shown whatever is hidden, and a handler's words are not")
    func groups() {
        let hidden = Sight(tokens: false, payloads: false)
        let own = [
            "timeout", "webhook status 503", "sql 23505", "cancelled by operator", "message gone", "exec exit 1",
            "exec signal 11", "webhook tls_expired", "webhook connection closed", "exec program reads no message",
        ]
        for group in own {
            #expect(hidden.group(group) == group && hidden.mayName(group: group))
        }
        for group in [
            "no such customer Ada", "webhook status Ada", "sql Ada", "status 5030", "sql 2350a", "exec exit Ada",
            "webhook tls_Ada", "",
        ] {
            #expect(hidden.group(group) == "(hidden)" && !hidden.mayName(group: group))
        }
        #expect(hidden.mayName(group: nil) && Sight(tokens: false, payloads: true).mayName(group: "Ada"))
    }
}

@Suite("the selection of a replay, as it is shown")
struct ShownSelectionTests {
    private static let stored =
        #"{"categories":["a"],"where":["data.total>=100","data.device_registration_id=SECRET","data.name~^Ada"]}"#

    @Test("tokens, and expressions that may find them, are left out; with hidden payloads every operand is")
    func shown() {
        #expect(
            MessageFilter.shown(Self.stored, to: Sight(tokens: false, payloads: true))
                == #"{"categories":["a"],"where":["data.total>=100","data.device_registration_id=…","data.name~…"]}"#
        )
        #expect(
            MessageFilter.shown(Self.stored, to: Sight(tokens: false, payloads: false))
                == #"{"categories":["a"],"where":["data.total>=…","data.device_registration_id=…","data.name~…"]}"#
        )
        #expect(MessageFilter.shown(Self.stored, to: Sight(tokens: true, payloads: true)) == Self.stored)
        #expect(MessageFilter.shown("[SECRET", to: Sight(tokens: false, payloads: true)) == "(hidden)")
    }

    @Test("a clause without its operand still says what it looks at")
    func clauses() throws {
        for (text, shown) in [
            (#"data."a b".c[0]!="x""#, #"data."a b".c.0!=…"#), ("data.a exists", "data.a exists"), ("data~x", "data~…"),
        ] { #expect(try WhereClause(parsing: text).textWithoutOperand == shown) }
    }
}
