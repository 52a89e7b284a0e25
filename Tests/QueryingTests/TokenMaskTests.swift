import QuerySupport
import Querying
import Testing

@Suite("the token that a receipt holds in its data", .timeLimit(.minutes(2)))
struct TokenMaskTests {
    @Test(
        "is masked at any depth, however its member's name is written, and nothing else changes",
        arguments: [
            (#"{"device_registration_id":"SECRET","a":1}"#, #"{"device_registration_id":"(masked)","a":1}"#),
            (#"{"a":[{"device_registration_id" : "SE\"CRET"}]}"#, #"{"a":[{"device_registration_id" : "(masked)"}]}"#),
            (
                #"{"\u0064evice\u005Fregistration_i\u0064":"SECRET"}"#,
                #"{"\u0064evice\u005Fregistration_i\u0064":"(masked)"}"#
            ),
            (
                #"{"device_registration_id":["SECRET]",{"x":"SECRET"}],"b":"kept"}"#,
                #"{"device_registration_id":"(masked)","b":"kept"}"#
            ),
            (
                #"{"device_registration_id":"S1","device_registration_id":"S2"}"#,
                #"{"device_registration_id":"(masked)","device_registration_id":"(masked)"}"#
            ),
            (#"{"x":"\\","device_registration_id":"SECRET"}"#, #"{"x":"\\","device_registration_id":"(masked)"}"#),
            (#"{"device_registration_id":"SECRET"#, #"{"device_registration_id":"(masked)""#),
            (#"{"device_registration_id":null}"#, #"{"device_registration_id":null}"#),
            (#"{"device_registration_id2":"kept","x":"\n"}"#, #"{"device_registration_id2":"kept","x":"\n"}"#),
            (#"["device_registration_id","kept"]"#, #"["device_registration_id","kept"]"#),
            (#"{"s":"{\"device_registration_id\":\"SECRET\"}","b":"kept"}"#, #"{"s":"(masked)","b":"kept"}"#),
            (#"["{\"\\u0064evice_registration_id\":\"SECRET\"}"]"#, #"["(masked)"]"#),
            (#"{"s":"[\"{\\\"device_registration_id\\\":\\\"SECRET\\\"}\"]"}"#, #"{"s":"(masked)"}"#),
            ("", ""), (#""device_registration_id""#, #""device_registration_id""#),
            (#"{"device_registration_id":"#, #"{"device_registration_id":"#), (#""\"#, #""\"#),
        ]
    )
    func mask(_ json: String, _ masked: String) {
        #expect(String(decoding: TokenMask.mask(Array(json.utf8)), as: UTF8.self) == masked)
    }

    @Test("is in no line without tokens, whatever column holds it, and in those with tokens")
    func lines() async throws {
        let receipt = "{\"device_registration_id\":\n\"token-SECRET-b\"}"
        let fixture = try await QueryFixture([
            Seed(id: "1", data: receipt, extra: receipt, type: "receipt"),
            Seed(id: "2", data: nil, raw: receipt, at: 1),
        ])
        let page = try await fixture.page()
        for format in [MessageLines.Format.ndjson, .csv] {
            for isForTerminal in [false, true] {
                for tokens in [false, true] {
                    var lines = MessageLines(format, tokens: tokens, isForTerminal: isForTerminal)
                    for row in 0..<page.count { lines.append(page, row) }
                    let text = String(decoding: lines.take(), as: UTF8.self)
                    #expect(text.contains("token-SECRET-b") == tokens)
                    #expect(text.contains("(masked)") != tokens)
                }
            }
        }
    }

    @Test("is found by no regular expression of those who may not see it")
    func clauses() async throws {
        let fixture = try await QueryFixture([
            Seed(id: "receipt", data: #"{"n":{"\u0064evice_registration_id":"token-SECRET-b"},"s":"token-x"}"#),
            Seed(id: "other", data: #"{"s":"token-SECRET"}"#, at: 1),
        ])
        for (clause, masked, seen) in [
            ("data~token-SECRET", ["other"], ["receipt", "other"]), ("data.n~token-SECRET-b", [], ["receipt"]),
            ("data.s~^token", ["receipt", "other"], ["receipt", "other"]),
        ] {
            var filter = MessageFilter()
            filter.clauses = [try WhereClause(parsing: clause)]
            #expect(try await fixture.ids(filter) == seen)
            filter.seesTokens = false
            #expect(try await fixture.ids(filter) == masked)
        }
        #expect(try WhereClause(parsing: #"data.a."\u0064evice_registration_id"[0]~x"#).isOnToken)
    }
}
