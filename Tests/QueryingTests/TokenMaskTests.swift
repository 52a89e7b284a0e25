import QuerySupport
import Querying
import Testing
import Vocabulary

@Suite("the token that a receipt holds in its data", .timeLimit(.minutes(10)))
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
        #expect(String(decoding: TokenMask.mask(Array(json.utf8), of: "SECRET"), as: UTF8.self) == masked)
    }

    @Test("the device's own token, which an app sends along, is masked wherever it stands; a short one is any text")
    func own() {
        let token = "fcm:" + String(repeating: "A_b-9", count: 30)
        func masked(_ json: String, of token: String) -> String {
            String(decoding: TokenMask.mask(Array(json.utf8), of: token), as: UTF8.self)
        }
        #expect(
            masked(#"{"t":"\#(token)","u":["x\#(token)y",1]}"#, of: token) == #"{"t":"(masked)","u":["x(masked)y",1]}"#
        )
        #expect(
            masked(#"{"\#(token)":{"device_registration_id":"S"}}"#, of: token)
                == #"{"(masked)":{"device_registration_id":"(masked)"}}"#
        )
        #expect(masked(#""\#(token)\#(token)""#, of: token) == #""(masked)(masked)""#)
        #expect(masked(#"{"t":"m"}"#, of: "t") == #"{"t":"m"}"#)
        #expect(masked(#"{"t":"\#(token.dropLast())"}"#, of: token).contains("A_b-9"))
    }

    @Test(
        "a token that is made to break the JSON around it is masked inside strings and as a whole value",
        arguments: [
            (#"{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":1}"#, "TOKEN", "TOKEN"),
            (#""aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"#, #"{"s":TOKEN","t":1}"#, #"{"s":TOKEN","t":1}"#),
            (String(repeating: "1", count: 32), #"{"n":[TOKEN0,-TOKEN],"s":"TOKEN"}"#, #"{"n":[#,#],"s":#}"#),
            (String(repeating: " ", count: 32), #"{TOKEN"s":"xTOKENy"}"#, #"{TOKEN"s":"x(masked)y"}"#),
            ("u0041aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", #"{"s":"\TOKEN","t":"TOKEN"}"#, #"{"s":#,"t":#}"#),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", #"["\u00TOKEN","\u00aTOKEN",{"TOKEN":1}]"#, ##"[#,#,{#:1}]"##),
        ]
    )
    func hostile(_ token: String, _ json: String, _ masked: String) {
        func filled(_ text: String) -> String {
            text.replacing("TOKEN", with: token).replacing("#", with: #""(masked)""#)
        }
        let result = TokenMask.mask(Array(filled(json).utf8), of: token)
        #expect(String(decoding: result, as: UTF8.self) == filled(masked))
        var scanner = JSONScanner()
        #expect((try? result.withUnsafeBufferPointer { try scanner.scan($0) }) != nil)
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

    @Test(
        "of a text that is masked, clauses find no letter: however the name is escaped, and where it is the device's own token"
    )
    func letters() async throws {
        let token = "fcm:" + String(repeating: "A_b-9", count: 30)
        let texts = [
            "device%5Fregistration_id=\(token)x", "device%255Fregistration_id=\(token)x",
            #"{\"device\\u005fregistration_id\":\"\#(token)x\"}"#, #"\\u0064evice_registration_i%\\u00364 \#(token)x"#,
        ]
        let fixture = try await QueryFixture(
            texts.enumerated().map { Seed(id: "\($0)", data: #"{"s":"\#($1)"}"#, at: Int64($0)) } + [
                Seed(id: "own", token: token, data: #"{"s":"my \#(token)"}"#, at: 10),
                Seed(id: "plain", data: #"{"s":"https://a.example/?q=a%20b%40c 50 % fcm:A"}"#, at: 11),
            ]
        )
        for clause in ["data.s~fcm:A", "data~fcm:A", #"data.s>" ""#] {
            var filter = MessageFilter()
            filter.clauses = [try WhereClause(parsing: clause)]
            #expect(try await fixture.ids(filter) == ["0", "1", "2", "3", "own", "plain"], "\(clause)")
            filter.seesTokens = false
            #expect(try await fixture.ids(filter) == ["plain"], "\(clause)")
        }
        // What is compared is what is not shown.
        var lines = MessageLines(.ndjson, tokens: false)
        let page = try await fixture.page()
        for row in 0..<page.count where row != 5 { lines.append(page, row) }
        #expect(!String(decoding: lines.take(), as: UTF8.self).contains("fcm:A"))
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
