// `$I` stands for the id's unique part and `$T` for the token.
extension OddMessage {
    private static func gcm(_ json: String) -> String { "<gcm xmlns='google:mobile:data'>\(json)</gcm>" }

    private static let plain = #"{"message_id":"$I","from":"$T","category":"odd","data":{"a":"b"}}"#

    /// Quarantined without an ack: no usable id and sender.
    static let unackable: [OddMessage] =
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
        ].map { OddMessage(name: $0, place: .quarantine, isAcked: false, body: .json($1)) }
        + [
            ("element-inside", gcm(plain + "<b/>")), ("empty-element", gcm("")),
            ("two-elements", gcm(plain) + gcm(plain)),
        ].map { OddMessage(name: $0, place: .quarantine, isAcked: false, body: .stanza("<message>\($1)</message>")) }

    /// Quarantined with an ack.
    static let ackedQuarantine: [OddMessage] = oddMembers + oddIdentities

    private static let oddMembers: [OddMessage] =
        [
            ("data-twice", #"{"message_id":"$I","from":"$T","category":"odd","data":1,"data":2}"#),
            ("category-twice", #"{"message_id":"$I","from":"$T","category":"odd","category":"odd"}"#),
            ("category-missing", #"{"message_id":"$I","from":"$T","data":{}}"#),
            ("category-empty", #"{"message_id":"$I","from":"$T","category":"","data":{}}"#),
            ("category-number", #"{"message_id":"$I","from":"$T","category":5,"data":{}}"#),
            ("category-long", #"{"message_id":"$I","from":"$T","category":"\#(String(repeating: "c", count: 256))"}"#),
            ("category-nul", #"{"message_id":"$I","from":"$T","category":"a\u0000b","data":{}}"#),
            ("type-unknown", #"{"message_id":"$I","from":"$T","category":"odd","message_type":"novel"}"#),
            ("type-number", #"{"message_id":"$I","from":"$T","category":"odd","message_type":1}"#),
        ].map { OddMessage(name: $0, place: .quarantine, isAcked: true, body: .json($1)) }

    /// Ids and tokens that no `text` column can hold, or that are too long.
    private static let oddIdentities: [OddMessage] =
        [
            ("id-nul", #"{"message_id":"\u0000$I","from":"$T","category":"odd","data":{}}"#, [0], []),
            (
                "id-surrogate", #"{"message_id":"\ud800$I","from":"$T","category":"odd","data":{}}"#,
                [0xED, 0xA0, 0x80], []
            ),
            ("id-long", #"{"message_id":"\#(longText)$I","from":"$T","category":"odd","data":{}}"#, longHead, []),
            ("from-nul", #"{"message_id":"$I","from":"\u0000$T","category":"odd","data":{}}"#, [], [0]),
            (
                "from-surrogate", #"{"message_id":"$I","from":"\udfff$T","category":"odd","data":{}}"#, [],
                [0xED, 0xBF, 0xBF]
            ),
            ("from-long", #"{"message_id":"$I","from":"\#(longText)$T","category":"odd","data":{}}"#, [], longHead),
        ].map {
            OddMessage(name: $0, place: .quarantine, isAcked: true, body: .json($1), idHead: $2, tokenHead: $3)
        }

    private static let longText = String(repeating: "L", count: 4096)
    private static let longHead = Array(longText.utf8)

    static let dataForms: [OddMessage] =
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
            let json = #"{"message_id":"$I","from":"$T","category":"odd"\#(rest)}"#
            return OddMessage(name: name, place: place, isAcked: true, body: .json(json))
        } + oddTexts

    private static let oddTexts: [OddMessage] = {
        let hostileID = ##"{"message_id":"\"'<>&]]></gcm>\n\u2028$I","from":"$T","category":"odd","data":{}}"##
        let unicode = "\u{e9}e\u{301}\u{202e}"
        let unicodeID = #"{"message_id":"\ud83d\ude9a\#(unicode)$I","from":"$T","category":"odd"}"#
        let hostileToken = ##"{"message_id":"$I","from":"\"'<>&\/$T","category":"odd","data":{}}"##
        let children = "<delay xmlns='urn:xmpp:delay'/>\(gcm(plain))<body>x</body>"
        let split = gcm(#"{"message_id":"$I",<![CDATA["from":"$T",]]>&#x22;category&quot;:"odd"}"#)
        let rows: [(name: String, body: Body, idHead: String, tokenHead: String)] = [
            ("id-hostile", .json(hostileID), "\"'<>&]]></gcm>\n\u{2028}", ""),
            ("id-unicode", .json(unicodeID), "\u{1f69a}" + unicode, ""),
            ("from-hostile", .json(hostileToken), "", "\"'<>&/"),
            ("other-children", .stanza("<message xml:lang='de'>\(children)</message>"), "", ""),
            ("split-text", .stanza("<message>\(split)</message>"), "", ""),
        ]
        return rows.map { row in
            OddMessage(
                name: row.name,
                place: .messages,
                isAcked: true,
                body: row.body,
                idHead: Array(row.idHead.utf8),
                tokenHead: Array(row.tokenHead.utf8)
            )
        }
    }()

    /// Neither stored nor acked.
    static let strangers: [OddMessage] = [
        ("untrusted", "<message from='mallory@evil.test/x'>\(gcm(plain))</message>"),
        ("untrusted-suffix", "<message from='devices@gcm.googleapis.com.evil.test'>\(gcm(plain))</message>"),
        ("without-gcm", "<message><body>$I</body></message>"),
        (
            "forwarded",
            "<message><forwarded xmlns='urn:xmpp:forward:0'><message>\(gcm(plain))</message></forwarded></message>"
        ),
        ("error", "<message type='error'>\(gcm(plain))<error code='400' type='modify'/></message>"),
        ("presence", "<presence from='devices@gcm.googleapis.com'/>"),
    ].map { OddMessage(name: $0, place: .nowhere, isAcked: false, body: .stanza($1)) }

    /// Well-formed, but over one of a receiver's limits.
    static let excessive: [OddMessage] = [
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
    ].map {
        OddMessage(name: $0, place: .nowhere, isAcked: false, body: .stanza("<message>\($1)\(gcm(plain))</message>"))
    }

    private static func nested(_ depth: Int) -> String {
        String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    }
}
