/// A message that a receiver must get right although it is odd, and what is right: the table of contract.md §7.
package struct OddMessage: Sendable {
    /// Where the receiver must put it.
    package enum Place: Sendable {
        /// Table `messages`, the data in `data`.
        case messages
        /// Table `messages`, the data in `data_raw`, because jsonb would refuse it.
        case messagesRaw
        /// Table `quarantine`.
        case quarantine
        /// No table: counted as `untrusted` or `other`.
        case nowhere
    }

    /// The oddity's name in fault scripts.
    package var name: String
    /// Where the receiver must put it.
    package var place: Place
    /// Whether the receiver must ack it; if not, it must not.
    package var isAcked: Bool

    private enum Body: Sendable {
        /// JSON to be wrapped.
        case json(String)
        /// A whole stanza.
        case stanza(String)
    }

    private var body: Body
    /// What stands before the unique part in the unescaped id.
    private var idHead: [UInt8]
    /// What stands before the token in the unescaped `from`.
    private var tokenHead: [UInt8]

    private init(
        _ name: String,
        _ place: Place,
        acked: Bool,
        _ body: Body,
        idHead: [UInt8] = [],
        tokenHead: [UInt8] = []
    ) {
        self.name = name
        self.place = place
        self.isAcked = acked
        self.body = body
        self.idHead = idHead
        self.tokenHead = tokenHead
    }

    /// One such message with a unique id.
    package struct Instance: Sendable {
        /// The whole stanza.
        package var stanza: [UInt8]
        /// The id that an ack must give, unescaped; lone surrogates stand as three bytes each.
        package var id: [UInt8]
        /// The `to` that an ack must give, unescaped in the same way.
        package var to: [UInt8]
    }

    /// Makes one.
    ///
    /// - Parameters:
    ///   - id: The id's unique part, of letters, digits and hyphens.
    ///   - token: The registration token, likewise plain.
    ///   - address: The stanza's start tag.
    ///   - form: The wrapping of its JSON.
    /// - Returns: The stanza, and what an ack for it must give.
    package func instance(id: String, token: String, address: StanzaAddress, form: EnvelopeForm) -> Instance {
        let stanza =
            switch body {
            case .json(let text): address.stanza(around: Self.fill(text, id, token), form: form)
            case .stanza(let text): Self.fill(text, id, token)
            }
        return Instance(stanza: stanza, id: idHead + Array(id.utf8), to: tokenHead + Array(token.utf8))
    }

    /// The odd message of this name.
    package static func named(_ name: String) -> OddMessage? {
        all.first { $0.name == name }
    }

    /// Every one, in a fixed order.
    package static let all: [OddMessage] = unackable + ackedQuarantine + dataForms + strangers + excessive

    private static func fill(_ text: String, _ id: String, _ token: String) -> [UInt8] {
        var result: [UInt8] = []
        var rest = text[...]
        while let mark = rest.firstIndex(of: "$") {
            result += rest[..<mark].utf8
            rest = rest[rest.index(after: mark)...]
            result += (rest.first == "I" ? id : token).utf8
            rest = rest.dropFirst()
        }
        return result + Array(rest.utf8)
    }
}

// In the texts `$I` stands for the id's unique part and `$T` for the token.
extension OddMessage {
    private static func gcm(_ json: String) -> String { "<gcm xmlns='google:mobile:data'>\(json)</gcm>" }

    private static let plain = #"{"message_id":"$I","from":"$T","category":"odd","data":{"a":"b"}}"#

    /// Quarantined without an ack: no usable id and sender.
    private static let unackable: [OddMessage] =
        [
            ("id-missing", #"{"from":"$T","category":"odd","data":{"n":"$I"}}"#),
            ("id-empty", #"{"message_id":"","from":"$T","category":"odd","data":{"n":"$I"}}"#),
            ("id-number", #"{"message_id":17,"from":"$T","category":"odd","data":{"n":"$I"}}"#),
            ("id-null", #"{"message_id":null,"from":"$T","category":"odd","data":{"n":"$I"}}"#),
            ("id-twice", #"{"message_id":"$I","message_id":"$I","from":"$T","category":"odd"}"#),
            ("id-twice-escaped", #"{"message_id":"$I","\u006dessage_id":"x$I","from":"$T","category":"odd"}"#),
            ("from-missing", #"{"message_id":"$I","category":"odd","data":{}}"#),
            ("from-empty", #"{"message_id":"$I","from":"","category":"odd","data":{}}"#),
            ("from-object", #"{"message_id":"$I","from":{"a":1},"category":"odd","data":{}}"#),
            ("from-twice", #"{"message_id":"$I","from":"$T","from":"$T","category":"odd"}"#),
            ("not-json", "hello $I"),
            ("array", #"[{"message_id":"$I","from":"$T","category":"odd"}]"#),
            ("string", #""$I""#),
            ("cut-off", #"{"message_id":"$I","from":"$T","category":"odd","data":{"#),
            ("trailing-comma", #"{"message_id":"$I","from":"$T","category":"odd",}"#),
            ("comment", #"{"message_id":"$I",/* note */"from":"$T","category":"odd"}"#),
            ("trailing-text", #"{"message_id":"$I","from":"$T","category":"odd"} more"#),
            ("byte-order-mark", "\u{feff}" + plain),
            ("bad-escape", #"{"message_id":"$I","from":"$T","category":"odd","data":"\x41"}"#),
            ("bad-number", #"{"message_id":"$I","from":"$T","category":"odd","data":01}"#),
            ("not-a-number", #"{"message_id":"$I","from":"$T","category":"odd","data":NaN}"#),
        ].map { OddMessage($0, .quarantine, acked: false, .json($1)) } + [
            OddMessage(
                "element-inside",
                .quarantine,
                acked: false,
                .stanza("<message>\(gcm(plain + "<b/>"))</message>")
            ),
            OddMessage("empty-element", .quarantine, acked: false, .stanza("<message>\(gcm(""))</message>")),
            OddMessage(
                "two-elements",
                .quarantine,
                acked: false,
                .stanza("<message>\(gcm(plain))\(gcm(plain))</message>")
            ),
        ]

    /// Quarantined with an ack.
    private static let ackedQuarantine: [OddMessage] = [
        OddMessage(
            "data-twice",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"$T","category":"odd","data":1,"data":2}"#)
        ),
        OddMessage(
            "category-twice",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"$T","category":"odd","category":"odd"}"#)
        ),
        OddMessage("category-missing", .quarantine, acked: true, .json(#"{"message_id":"$I","from":"$T","data":{}}"#)),
        OddMessage(
            "category-empty",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"$T","category":"","data":{}}"#)
        ),
        OddMessage(
            "category-number",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"$T","category":5,"data":{}}"#)
        ),
        OddMessage(
            "category-long",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"$T","category":"\#(String(repeating: "c", count: 256))"}"#)
        ),
        OddMessage(
            "category-nul",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"$T","category":"a\u0000b","data":{}}"#)
        ),
        OddMessage(
            "type-unknown",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"$T","category":"odd","message_type":"novel"}"#)
        ),
        OddMessage(
            "type-number",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"$T","category":"odd","message_type":1}"#)
        ),
        OddMessage(
            "id-nul",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"\u0000$I","from":"$T","category":"odd","data":{}}"#),
            idHead: [0]
        ),
        OddMessage(
            "id-surrogate",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"\ud800$I","from":"$T","category":"odd","data":{}}"#),
            idHead: [0xED, 0xA0, 0x80]
        ),
        OddMessage(
            "id-long",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"\#(longText)$I","from":"$T","category":"odd","data":{}}"#),
            idHead: Array(longText.utf8)
        ),
        OddMessage(
            "from-nul",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"\u0000$T","category":"odd","data":{}}"#),
            tokenHead: [0]
        ),
        OddMessage(
            "from-surrogate",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"\udfff$T","category":"odd","data":{}}"#),
            tokenHead: [0xED, 0xBF, 0xBF]
        ),
        OddMessage(
            "from-long",
            .quarantine,
            acked: true,
            .json(#"{"message_id":"$I","from":"\#(longText)$T","category":"odd","data":{}}"#),
            tokenHead: Array(longText.utf8)
        ),
    ]

    private static let longText = String(repeating: "L", count: 4096)

    /// Stored: odd data, odd ids.
    private static let dataForms: [OddMessage] =
        [
            ("data-absent", Place.messages, ""),
            ("data-null", .messages, #","data":null"#),
            ("data-string", .messages, #","data":"text""#),
            ("data-number", .messages, #","data":-1.5e3"#),
            ("data-array", .messages, #","data":[1,[2,{"a":[]}],"x"]"#),
            ("data-duplicate-keys", .messages, #","data":{"a":1,"a":2}"#),
            ("data-markup", .messages, #","data":{"a":"<b>&amp;]]>'\"</gcm>"}"#),
            ("data-big-integer", .messages, #","data":12345678901234567890123456789"#),
            ("data-nul", .messagesRaw, #","data":{"a":"\u0000"}"#),
            ("data-surrogate", .messagesRaw, #","data":{"a":"\ud800"}"#),
            ("data-huge-number", .messagesRaw, #","data":1e400000"#),
            ("data-deep", .messagesRaw, #","data":"# + nested(60_000)),
            ("type-null", .messages, #","message_type":null"#),
            ("extra-members", .messages, #","time_to_live":10,"x":{"y":[1,2]},"":0"#),
        ].map { name, place, rest in
            OddMessage(name, place, acked: true, .json(#"{"message_id":"$I","from":"$T","category":"odd"\#(rest)}"#))
        } + [
            OddMessage(
                "id-hostile",
                .messages,
                acked: true,
                .json(##"{"message_id":"\"'<>&]]></gcm>\n\u2028$I","from":"$T","category":"odd","data":{}}"##),
                idHead: Array("\"'<>&]]></gcm>\n\u{2028}".utf8)
            ),
            OddMessage(
                "id-unicode",
                .messages,
                acked: true,
                .json(#"{"message_id":"\ud83d\ude9a\#("\u{e9}e\u{301}\u{202e}")$I","from":"$T","category":"odd"}"#),
                idHead: Array("\u{1f69a}\u{e9}e\u{301}\u{202e}".utf8)
            ),
            OddMessage(
                "from-hostile",
                .messages,
                acked: true,
                .json(##"{"message_id":"$I","from":"\"'<>&\/$T","category":"odd","data":{}}"##),
                tokenHead: Array("\"'<>&/".utf8)
            ),
            OddMessage(
                "other-children",
                .messages,
                acked: true,
                .stanza("<message xml:lang='de'><delay xmlns='urn:xmpp:delay'/>\(gcm(plain))<body>x</body></message>")
            ),
            OddMessage(
                "split-text",
                .messages,
                acked: true,
                .stanza(
                    "<message>" + gcm(#"{"message_id":"$I",<![CDATA["from":"$T",]]>&#x22;category&quot;:"odd"}"#)
                        + "</message>"
                )
            ),
        ]

    /// Stored nowhere and not acked.
    private static let strangers: [OddMessage] = [
        OddMessage(
            "untrusted",
            .nowhere,
            acked: false,
            .stanza("<message from='mallory@evil.test/x'>\(gcm(plain))</message>")
        ),
        OddMessage(
            "untrusted-suffix",
            .nowhere,
            acked: false,
            .stanza("<message from='devices@gcm.googleapis.com.evil.test'>\(gcm(plain))</message>")
        ),
        OddMessage("without-gcm", .nowhere, acked: false, .stanza("<message><body>$I</body></message>")),
        OddMessage(
            "forwarded",
            .nowhere,
            acked: false,
            .stanza(
                "<message><forwarded xmlns='urn:xmpp:forward:0'><message>\(gcm(plain))</message></forwarded></message>"
            )
        ),
        OddMessage(
            "error",
            .nowhere,
            acked: false,
            .stanza("<message type='error'>\(gcm(plain))<error code='400' type='modify'/></message>")
        ),
        OddMessage("presence", .nowhere, acked: false, .stanza("<presence from='devices@gcm.googleapis.com'/>")),
    ]

    /// Well-formed, and more of something than a receiver takes.
    private static let excessive: [OddMessage] = [
        ("deep", String(repeating: "<a>", count: 300) + String(repeating: "</a>", count: 300)),
        ("many-elements", String(repeating: "<a/>", count: 5000)),
        ("many-attributes", "<a " + (0..<3000).map { "a\($0)='' " }.joined() + "/>"),
        ("many-namespaces", "<a " + (0..<300).map { "xmlns:n\($0)='u' " }.joined() + "/>"),
        ("long-name", "<" + String(repeating: "n", count: 60_000) + "/>"),
        ("undeclared-prefix", "<forwarded:a/>"),
        (
            "long-namespaces",
            "<a xmlns:p='\(String(repeating: "p", count: 60_000))' xmlns:q='\(String(repeating: "q", count: 60_000))'>"
                + (0..<2500).map { "<a p:a\($0)='' q:a='' p:b='' q:b=''/>" }.joined() + "</a>"
        ),
    ].map { OddMessage($0, .nowhere, acked: false, .stanza("<message>\($1)\(gcm(plain))</message>")) }

    private static func nested(_ depth: Int) -> String {
        String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    }
}
