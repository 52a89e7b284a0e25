import Foundation
import Postgres
import QuerySupport
import Querying
import Testing
import UpstreamKit
import Vocabulary

@Suite("what filters select, on a real server", .timeLimit(.minutes(10)))
struct FilterQueryTests {
    static let hour: Int64 = 3_600_000_000

    @Test("each filter selects what it names and nothing else")
    func columns() async throws {
        let fixture = try await QueryFixture([
            Seed(id: "a", at: 0),
            Seed(id: "b", category: "com.example.other", at: Self.hour),
            Seed(id: "c", sender: "2", at: 2 * Self.hour),
            Seed(id: "d", token: "token-SECRET-d", at: 3 * Self.hour),
            Seed(id: "a", sender: "3", at: 4 * Self.hour),
            Seed(id: "' OR 1=1 --", category: "x' OR 'x'='x", at: 30 * Self.hour),
        ])
        func ids(_ edit: (inout MessageFilter) -> Void) async throws -> [String] {
            var filter = MessageFilter()
            edit(&filter)
            return try await fixture.ids(filter)
        }
        let all = ["a", "b", "c", "d", "a", "' OR 1=1 --"]
        #expect(try await ids { _ in } == all)
        #expect(try await ids { $0.categories = ["com.example.other"] } == ["b"])
        #expect(try await ids { $0.categories = ["com.example.other", "x' OR 'x'='x"] } == ["b", "' OR 1=1 --"])
        #expect(try await ids { $0.categories = ["x' OR 'x'='x"] } == ["' OR 1=1 --"])
        #expect(try await ids { $0.categories = ["' OR '1'='1"] } == [])
        #expect(try await ids { $0.senderID = "2" } == ["c"])
        #expect(try await ids { $0.messageID = "a" } == ["a", "a"])
        #expect(try await ids { $0.messageID = "' OR 1=1 --" } == ["' OR 1=1 --"])
        #expect(try await ids { $0.deviceKey = DeviceKey(of: RegistrationToken("token-SECRET-d")) } == ["d"])
        #expect(try await ids { $0.since = QueryFixture.start + .microseconds(Self.hour) } == Array(all[1...]))
        #expect(try await ids { $0.until = QueryFixture.start + .microseconds(Self.hour) } == ["a"])
        #expect(
            try await ids {
                $0.since = QueryFixture.start + .microseconds(Self.hour)
                $0.until = QueryFixture.start + .microseconds(3 * Self.hour)
            } == ["b", "c"]
        )
        let key = try await fixture.page().cursor(3)?.messageKey
        #expect(try await ids { $0.messageKey = key } == ["d"])
        #expect(
            try await ids {
                $0.messageID = "a"
                $0.senderID = "3"
            } == ["a"]
        )
    }

    static let documents: [(id: String, data: String?)] = [
        ("number", #"{"v":5,"o":{"id":42},"list":[{"sku":"x"},{"sku":"y"}]}"#),
        ("decimal", #"{"v":5.0}"#),
        ("large", #"{"v":50}"#),
        ("string", #"{"v":"5"}"#),
        ("word", #"{"v":"abc"}"#),
        ("umlaut", #"{"v":"ä"}"#),
        ("true", #"{"v":true}"#),
        ("null", #"{"v":null}"#),
        ("empty", #"{"v":""}"#),
        ("object", #"{"v":{"w":"needle"}}"#),
        ("array", #"{"v":[5,"abc"]}"#),
        ("missing", #"{"a.b":{"c d":"q"},"":"blank"}"#),
        ("scalar", #""just text""#),
        ("huge", #"{"v":123456789012345678901234567890}"#),
        ("none", nil),
        ("jsonnull", "null"),
        ("twice", #"{"v":1,"v":7}"#),
    ]

    static let clauses: [(clause: String, ids: Set<String>)] = [
        ("data.v=5", ["number", "decimal", "string"]),
        ("data.v=5.00", ["number", "decimal"]),
        (#"data.v="5""#, ["string"]),
        ("data.v=abc", ["word"]),
        ("data.v=ä", ["umlaut"]),
        ("data.v=true", ["true"]),
        (#"data.v="true""#, []),
        ("data.v=null", ["null"]),
        (#"data.v="""#, ["empty"]),
        ("data.v=123456789012345678901234567890", ["huge"]),
        ("data.v=7", ["twice"]),
        ("data.v=1", []),
        (
            "data.v!=5",
            [
                "large", "word", "umlaut", "true", "null", "empty", "object", "array", "missing", "scalar", "huge",
                "none",
                "jsonnull", "twice",
            ]
        ),
        ("data.v<6", ["number", "decimal"]),
        ("data.v<=5", ["number", "decimal"]),
        ("data.v>5", ["large", "huge", "twice"]),
        ("data.v>=7", ["large", "huge", "twice"]),
        (#"data.v>"5""#, ["word", "umlaut"]),
        ("data.v<abd", ["string", "word", "empty"]),
        ("data.v>z", ["umlaut"]),
        ("data.v~^a", ["word"]),
        ("data.v~needle", ["object"]),
        ("data.v~^5", ["number", "decimal", "large", "string"]),
        ("data~just", ["scalar"]),
        ("data=\"just text\"", ["scalar"]),
        ("data=null", ["jsonnull"]),
        (
            "data exists",
            Set(documents.map(\.id)).subtracting(["none"])
        ),
        (
            "data.v exists",
            Set(documents.map(\.id)).subtracting(["none", "jsonnull", "scalar", "missing"])
        ),
        ("data.o.id=42", ["number"]),
        ("data.list[0].sku=x", ["number"]),
        ("data.list[1].sku=y", ["number"]),
        ("data.list[-1].sku=y", ["number"]),
        ("data.list.1.sku=y", ["number"]),
        ("data.list[2] exists", []),
        (#"data."a.b"."c d"=q"#, ["missing"]),
        (#"data.""=blank"#, ["missing"]),
        ("data.v[0]=5", ["array"]),
        ("data.v.v=5", []),
        ("data.v=' OR 1=1 --", []),
        (#"data."v' OR 'a'='a"=5"#, []),
        ("data.v={}", []),
    ]

    @Test("every comparison selects the right values among all types")
    func comparisons() async throws {
        let fixture = try await QueryFixture(
            Self.documents.enumerated().map { Seed(id: $1.id, data: $1.data, at: Int64($0)) }
                + [Seed(id: "raw", data: nil, raw: #"{"v":"\u0000"}"#, at: 1_000)]
        )
        for (clause, ids) in Self.clauses {
            var filter = MessageFilter()
            filter.clauses = [try WhereClause(parsing: clause)]
            var found = Set(try await fixture.ids(filter))
            // What jsonb refuses matches nothing, and so everything that is negated.
            #expect((found.remove("raw") != nil) == clause.contains("!="), "\(clause)")
            #expect(found == ids, "\(clause)")
        }
        var both = MessageFilter()
        both.clauses = [try WhereClause(parsing: "data.v>=5"), try WhereClause(parsing: "data.o exists")]
        #expect(try await fixture.ids(both) == ["number"])
        var broken = MessageFilter()
        broken.clauses = [try WhereClause(parsing: "data.v~(")]
        do {
            _ = try await fixture.ids(broken)
            Issue.record("a broken regular expression was taken")
        } catch let error as PostgresError {
            #expect(error.sqlState == "2201B")
        }
    }

    @Test("a filter that was stored as JSON selects the same messages")
    func stored() async throws {
        let fixture = try await QueryFixture((0..<20).map { Seed(id: "m\($0)", data: #"{"v":\#($0)}"#, at: Int64($0)) })
        var filter = MessageFilter()
        filter.categories = ["com.example.orders"]
        filter.since = QueryFixture.start + .microseconds(5)
        filter.clauses = [try WhereClause(parsing: "data.v<9")]
        let again = try JSONDecoder().decode(MessageFilter.self, from: JSONEncoder().encode(filter))
        #expect(try await fixture.ids(again) == ["m5", "m6", "m7", "m8"])
    }

    @Test("filters and partitions use days in UTC")
    func dayBorder() async throws {
        // 23:59:59.999999 of 1 March, the midnight, and one microsecond later.
        let midnight = 12 * Self.hour
        let fixture = try await QueryFixture(
            [-1, 0, 1].map { Seed(id: "m\($0)", at: midnight + $0) }
        )
        var filter = MessageFilter()
        filter.since = try TimeExpression.parse("2026-03-02", now: Timestamp(microseconds: 0))
        #expect(try await fixture.ids(filter) == ["m0", "m1"])
        filter.since = try TimeExpression.parse("2026-03-02T01:00+01:00", now: Timestamp(microseconds: 0))
        #expect(try await fixture.ids(filter) == ["m0", "m1"])
        filter.since = nil
        filter.until = try TimeExpression.parse("yesterday", now: QueryFixture.start + .seconds(48 * 3_600))
        #expect(try await fixture.ids(filter) == ["m-1"])
    }

    @Test("a read-only session can't change anything")
    func readOnly() async throws {
        let fixture = try await QueryFixture([Seed(id: "a")])
        for sql in ["DELETE FROM upstream.messages", "DELETE FROM upstream.quarantine", "CREATE TABLE x ()"] {
            let error = await #expect(throws: PostgresError.self) {
                try await fixture.reader.run { connection throws(PostgresError) in try connection.script(sql) }
            }
            #expect(error?.sqlState == "25006")
        }
    }

    @Test("only conditions that no index serves are estimated as rows to read")
    func estimate() async throws {
        let fixture = try await QueryFixture()
        try await fixture.script(
            """
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, received_at)
            SELECT gen_random_uuid(), 's', n::text, 't', gen_random_uuid(), 'c' || n % 2,
                timestamptz '2026-03-01 00:00Z' + n * interval '1 ms'
            FROM generate_series(1, 150000) AS n;
            ANALYZE upstream.messages
            """
        )
        var filter = MessageFilter()
        #expect(try await ScanEstimate.rowsToRead(filter, fixture.reader) == nil)
        filter.clauses = [try WhereClause(parsing: "data.a=1")]
        let all = try #require(try await ScanEstimate.rowsToRead(filter, fixture.reader))
        #expect((140_000...160_000).contains(all))
        filter.categories = ["c1"]
        #expect(try await ScanEstimate.rowsToRead(filter, fixture.reader) == nil)
        filter.categories = []
        filter.since = try TimeExpression.parse("2026-03-02", now: Timestamp(microseconds: 0))
        #expect(try await ScanEstimate.rowsToRead(filter, fixture.reader) == nil)
    }
}
