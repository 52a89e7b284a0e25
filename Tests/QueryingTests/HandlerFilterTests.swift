import Postgres
import QuerySupport
import Testing

@testable import Querying

@Suite("what a handler's where lets pass is what messages list --where finds", .timeLimit(.minutes(10)))
struct HandlerFilterTests {
    /// What a stranger's device may send, besides the types of ``FilterQueryTests/documents``.
    private static let hostile: [String] = [
        #"{"v":10.00}"#, #"{"v":1e1}"#, #"{"v":"10.00"}"#, #"{"v":-0}"#, #"{"v":100000000000000000000000000000.5}"#,
        #"{"v":1e1000}"#, #"{"v":1e-1000}"#, #"{"v":5,"v":null}"#, #"{"v":null,"v":5}"#,
        #"{"\"\u0301":5,"\\\u0301":5}"#, #"{"v":[]}"#, #"{"v":{}}"#,
        #"{"v":[[5]]}"#, #"{"v":[{"v":5}]}"#, #"{"v":{"0":5}}"#, #"{"v":["0",5]}"#, #"{"0":5}"#, "[5]", "[{\"v\":5}]",
        "5",
        "\"5\"", "true", "[]", "{}", #"{"v":"a\nb"}"#, #"{"v":"\\u0000"}"#, #"{"v":"\"}"}"#, #"{"v":"😀"}"#,
        #"{"v":"\ud83d\ude00"}"#, #"{"V":5}"#, #"{" v":5}"#, #"{"v ":5}"#, #"{"v":"' OR 1=1 --"}"#, #"{"v":"$is"}"#,
        #"{"v":"x","is":"x","path":"{v}","test":"="}"#, "{\"v\":\"\(String(repeating: "a", count: 50_000))\"}",
        String(repeating: "[", count: 200) + "5" + String(repeating: "]", count: 200),
    ]

    private static let clauses =
        FilterQueryTests.clauses.map(\.clause) + [
            "data.v=10", "data.v=10.00", "data.v=1e1", "data.v=-0", "data.v=0", "data.v!=5", "data.v!=null",
            "data!=null",
            "data.v<1e30", "data.v>=99999999999999999999999999999", "data.v>1e999", "data.v<=1e-999", "data.v<true",
            "data.v>=null", #"data.v>"""#, "data.v[0]=5", "data.v[0] exists", "data.v.0=5", "data[0]=5", "data[-1].v=5",
            "data[0][0][0] exists", "data=5", "data>4", #"data="5""#, "data~5", "data~^$", "data.v~^$",
            "data.v~^a+$", "data.v~(a|aa)+$", "data.v=😀", "data.v~^.$", #"data." v"=5"#, #"data."v "=5"#, "data.V=5",
            "data.v=$is", "data.v~.", "data.v=x", #"data."{v}" exists"#, #"data."\"" exists"#, #"data."\\" exists"#,
            #"data."" exists"#, "data.v exists", #"data."\u0022\u0301"=5"#, #"data."\\\u0301" exists"#,
        ]

    @Test("for every clause over every kind of data, alone and together with another")
    func agreement() async throws {
        let documents = FilterQueryTests.documents.map(\.data) + Self.hostile.map { $0 }
        let fixture = try await QueryFixture(
            documents.enumerated().map { Seed(id: "\($0)", data: $1, at: Int64($0)) }
                + [#"{"v":"\u0000"}"#, #"{"v":1e200000}"#].enumerated().map {
                    Seed(id: "raw\($0)", data: nil, raw: $1, at: 1_000 + Int64($0))
                } + [Seed(id: "receipt", data: #"{"v":5}"#, type: "receipt", at: 2_000)]
        )
        func compare(_ texts: [String]) async throws {
            var filter = MessageFilter()
            filter.clauses = try texts.map { try WhereClause(parsing: $0) }
            let form = try #require(HandlerFilter(texts.map { try HandlerClause(parsing: $0) }).form)
            let passed: [String] = try await fixture.reader.result(
                of: """
                    SELECT message_id FROM upstream.messages
                    WHERE upstream.wants(jsonb_build_array(\(form)::jsonb), data::text) ORDER BY received_at, message_key
                    """
            ).rows { $0 }
            #expect(try await fixture.ids(filter) == passed, "\(texts)")
        }
        for clause in Self.clauses {
            try await compare([clause])
            try await compare([clause, "data.v>4"])
        }
    }

    @Test("one of several filters is enough; what can't be judged passes none, and raises nothing")
    func judging() async throws {
        let fixture = try await QueryFixture()
        func wants(_ filters: String, _ data: String?) async throws -> Bool? {
            try await fixture.reader.result(of: "SELECT upstream.wants(\(filters)::jsonb, \(data))").firstRow {
                $0 as Bool
            }
        }
        func form(_ clause: String) throws -> String { try HandlerFilter([HandlerClause(parsing: clause)]).form ?? "" }
        let (five, broken) = (try form("data.v=5"), try form("data.v~("))
        #expect(try await wants("[\(five),\(try form("data.v=6"))]", #"{"v":6}"#) == true)
        #expect(try await wants("[\(five),\(try form("data.v=6"))]", #"{"v":7}"#) == false)
        #expect(try await wants("[\(broken)]", #"{"v":"("}"#) == false)
        let deep = String(repeating: "[", count: 100_000)
        for data in [#"{"v":"\u0000"}"#, #"{"v":1e200000}"#, #"{"v":"\ud800"}"#, "{", "", deep] {
            #expect(try await wants("[\(five)]", data) == false, "\(data.prefix(20))")
        }
        #expect(try await wants("[\(try form("data.v!=5"))]", nil) == true)
        #expect(try await wants("[\(try form("data exists"))]", nil) == false)
    }

    @Test(
        "what looks ahead or behind is refused: at each place of a stranger's text it reads the rest",
        arguments: ["(?=.*a)", "a(?!b)", "(?<=a)b", #"\\(?<!a)"#]
    )
    func lookaround(expression: String) throws {
        let error = #expect(throws: FilterError.self) { try HandlerClause(parsing: "data.v~\(expression)") }
        #expect(error.map { "data.v~\(expression)".dropFirst($0.position).hasPrefix("(?") } == true)
        for fine in [#"\(?=a"#, "(?:a)", "a?=", "(?i)a"] { _ = try HandlerClause(parsing: "data.v~\(fine)") }
    }

    @Test("back references are refused: with them a stranger's text could take any time", arguments: [1, 3])
    func backReferences(backslashes: Int) throws {
        let escape = String(repeating: "\\", count: backslashes)
        #expect(throws: FilterError.self) { try HandlerClause(parsing: "data.v~(a*)*\(escape)1") }
        _ = try HandlerClause(parsing: "data.v~(a*)*\(escape)\\1")
        _ = try HandlerClause(parsing: "data.v~\(escape)d1")
        _ = try WhereClause(parsing: "data.v~(a*)\(escape)1")
    }

    @Test("a reader who may not see payloads sees no operand, and one who may not see tokens none that may be one")
    func shown() {
        let (hidden, masked, all) = (
            Sight(tokens: false, payloads: false), Sight(tokens: false, payloads: true),
            Sight(tokens: true, payloads: true)
        )
        #expect(HandlerClause.shown("data.a=5", to: hidden) == "data.a=…")
        #expect(HandlerClause.shown("data.a=5", to: masked) == "data.a=5")
        #expect(HandlerClause.shown("data.device_registration_id=abc", to: masked) == "data.device_registration_id=…")
        #expect(HandlerClause.shown("data.device_registration_id=abc", to: all) == "data.device_registration_id=abc")
        #expect(HandlerClause.shown("data.a=5 and data.b=6", to: hidden) == "data.a=…")
    }
}
