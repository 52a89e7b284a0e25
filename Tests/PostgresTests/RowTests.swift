import Postgres
import Testing
import Vocabulary

/// Values on their way to a real server and back, and rows that are not what they should be.
@Suite("rows read by type")
struct RowTests {
    /// Runs statements on a connection of its own.
    private func run<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws -> T {
        try await SharedCluster.open().run(body)
    }

    /// The error of reading the one row of a statement.
    private func fault(
        _ sql: SQL,
        _ read: @Sendable (inout PostgresRow) throws(PostgresError) -> Void
    ) async throws -> PostgresError {
        let error = await #expect(throws: PostgresError.self) {
            try await run { connection throws(PostgresError) in try connection.run(sql).only(read) }
        }
        let found = try #require(error)
        #expect(found.failureClass == .schema)
        return found
    }

    private func roundTrip<Value: SQLBindable & SQLDecodable & Equatable>(_ values: [Value]) async throws {
        try await run { connection throws(PostgresError) in
            for value in values {
                let back: Value = try connection.run("SELECT \(value)").value()
                #expect(back == value)
                let optional: Value? = try connection.run("SELECT \(Optional(value))").value()
                #expect(optional == value)
            }
            let none: Value? = try connection.run("SELECT \(Value?.none)").value()
            #expect(none == nil)
        }
    }

    @Test("text, numbers, flags, times, and digests come back as they went, at their borders too, and null as nil")
    func scalars() async throws {
        try await roundTrip(["", "a", "é\u{1F600}", "a{},\"\\'$1", String(repeating: "x", count: 100_000)])
        try await roundTrip([0, 1, -1, Int.max, Int.min])
        try await roundTrip([0 as Int64, 5, -5, .max, .min])
        try await roundTrip([true, false])
        try await roundTrip([
            Digest128(high: 0, low: 0), Digest128(high: 1, low: .max), Digest128(high: .max, low: 0),
        ])
        try await roundTrip(
            [0, 1, -1, 1_700_000_000_123_456, -946_684_800_000_000, .max, .min].map(Timestamp.init(microseconds:))
        )
    }

    private struct Pair: Equatable, Sendable {
        var number: Int
        var name: String?
    }

    private struct Loose: Sendable {
        var name: String?
    }

    @Test("a structure is made of as many columns as it has members, in order; too many and too few are errors")
    func structures() async throws {
        try await run { connection throws(PostgresError) in
            let two: SQL = "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS pair (number, name) ORDER BY number"
            let found = try connection.run(two)
            let (all, first) = (try found.rows(Pair.init), try found.firstRow(Pair.init))
            #expect(all == [Pair(number: 1, name: "a"), Pair(number: 2, name: nil)] && first == all.first)
            let only = try connection.run("SELECT 3, 'c'").onlyRow(Pair.init)
            let none = try connection.run("SELECT 3, 'c' LIMIT 0").firstRow(Pair.init)
            #expect(only == Pair(number: 3, name: "c") && none == nil)
        }
        // All its members have defaults, so its initialiser may be the one without parameters.
        let unread = await #expect(throws: PostgresError.self) {
            try await run { connection throws(PostgresError) in try connection.run("SELECT 'a'").onlyRow(Loose.init) }
        }
        #expect(unread?.failureClass == .schema)
        for sql: SQL in ["SELECT 1", "SELECT 1, 'a', true", "SELECT 'a', 1"] {
            let error = await #expect(throws: PostgresError.self) {
                try await run { connection throws(PostgresError) in try connection.run(sql).onlyRow(Pair.init) }
            }
            #expect(error?.failureClass == .schema, "\(sql.text)")
        }
    }

    @Test("bytes and JSON come back as they went, empty and null too")
    func bytes() async throws {
        try await run { connection throws(PostgresError) in
            for bytes in [[], [0, 255, 92, 39], [UInt8](repeating: 7, count: 100_000)] as [[UInt8]] {
                let back: Bytea = try connection.run("SELECT \(Bytea(bytes))").value()
                #expect(back.bytes == bytes)
            }
            let none: Bytea? = try connection.run("SELECT \(Bytea?.none)").value()
            #expect(none == nil)
            let text = #"{ "a" : [1, "é"] }"#
            let json: JSONColumn = try connection.run("SELECT \(JSONColumn(utf8: [UInt8](text.utf8)))").value()
            #expect(json.utf8 == [UInt8](text.utf8))
            let asText: String = try connection.run("SELECT \(JSONColumn(utf8: [UInt8](text.utf8)))").value()
            #expect(asText == text)
        }
    }

    @Test("arrays reach the server member by member, and text arrays come back")
    func arrays() async throws {
        try await roundTrip([[], ["a"], ["", "a{},\"\\", "é\u{1F600}", "NULL"], [String](repeating: "m", count: 1000)])
        let conditions: [SQL] = [
            "\([Int.min, 0, Int.max]) = ARRAY[-9223372036854775808, 0, 9223372036854775807]::int8[]",
            "\([-1, 2] as [Int64]) = ARRAY[-1, 2]::int8[]",
            "\([true, false]) = ARRAY[true, false]",
            "\([Timestamp(microseconds: 1)]) = ARRAY['1970-01-01 00:00:00.000001+00'::timestamptz]",
            "\([Timestamp(microseconds: .max)]) = ARRAY['infinity'::timestamptz]",
            "\([Digest128(high: 1, low: 2)]) = ARRAY['00000000-0000-0001-0000-000000000002'::uuid]",
            #"\#([Bytea([0, 255]), Bytea([])]) = ARRAY['\x00ff', '']::bytea[]"#,
            "(\([JSONColumn(utf8: [UInt8]("{}".utf8))]))[1]::text = '{}'",
            "cardinality(\([Int]())) = 0 AND \([String]?.none) IS NULL",
        ]
        try await run { connection throws(PostgresError) in
            for condition in conditions {
                let holds: Bool = try connection.run("SELECT \(condition)").value()
                #expect(holds, "\(condition.text)")
            }
        }
    }

    @Test("smaller types of the server are read as the larger ones of ours")
    func widening() async throws {
        try await run { connection throws(PostgresError) in
            let result = try connection.run(
                "SELECT (-2)::int2, 2147483647, 4294967295::oid, 1.5::float8, 'n'::name, 'v'::varchar, ARRAY['n'::name]"
            )
            try result.only { row throws(PostgresError) in
                #expect(try row.next(Int.self) == -2)
                #expect(try row.next(Int64.self) == 2_147_483_647)
                #expect(try row.next(Int.self) == 4_294_967_295)
                #expect(try row.next(Double.self) == 1.5)
                #expect(try row.next(String.self) == "n")
                #expect(try row.next(String.self) == "v")
                #expect(try row.next([String].self) == ["n"])
            }
        }
    }

    @Test("text that would be SQL stays a parameter's value")
    func injection() async throws {
        let hostile = "x'); DROP TABLE kept; --"
        try await run { connection throws(PostgresError) in
            try connection.run("CREATE TEMPORARY TABLE kept (name text)")
            try connection.run("INSERT INTO kept VALUES (\(hostile))")
            let found: String = try connection.run("SELECT name FROM kept WHERE name = \(hostile)").value()
            #expect(found == hostile)
            let count: Int = try connection.run("SELECT count(*) FROM kept WHERE name = \("' OR '1'='1")").value()
            #expect(count == 0)
        }
    }

    @Test("rows are read in order or by name, all of them, the first, or the only one")
    func reading() async throws {
        struct Pair: Equatable {
            var number: Int
            var name: String?
        }
        try await run { connection throws(PostgresError) in
            let result = try connection.run("SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS t (number, name)")
            let inOrder = try result.map { row throws(PostgresError) in
                Pair(number: try row.next(), name: try row.next())
            }
            let byName = try result.map { row throws(PostgresError) in
                Pair(number: try row.value("number"), name: try row.value("name"))
            }
            #expect(inOrder == [Pair(number: 1, name: "a"), Pair(number: 2, name: nil)] && byName == inOrder)
            // By name a part of the columns will do.
            #expect(try result.first { row throws(PostgresError) in try row.value("name", as: String?.self) } == "a")
            let none = try connection.run("SELECT 1 WHERE false")
            #expect(try none.first { row throws(PostgresError) in try row.next(Int.self) } == nil)
            #expect(none.count == 0)
        }
    }

    private static let secret = "SECRET-123"

    @Test("a null where a value must be is an error that names the column")
    func null() async throws {
        let error = try await fault("SELECT 1, NULL::text AS token") { row throws(PostgresError) in
            _ = try row.next(Int.self)
            _ = try row.next(String.self)
        }
        #expect(error.message == "column 2 ('token') is null, and must be text")
    }

    @Test("a value of another type is an error that names the column, and not the value")
    func type() async throws {
        let text = try await fault("SELECT \(Self.secret) AS count") { row throws(PostgresError) in
            _ = try row.next(Int.self)
        }
        #expect(text.message.contains("column 1 ('count') is of type 25") && !"\(text)".contains(Self.secret))
        let number = try await fault("SELECT 4711 AS name") { row throws(PostgresError) in
            _ = try row.value("name", as: String.self)
        }
        #expect(number.message.contains("'name'") && !"\(number)".contains("4711"))
        let optional = try await fault("SELECT 4711 AS time") { row throws(PostgresError) in
            _ = try row.next(Timestamp?.self)
        }
        #expect(optional.message.contains("'time'"))
        // jsonb's binary form begins with a version: it is to be cast to json.
        let json = try await fault("SELECT '{}'::jsonb AS data") { row throws(PostgresError) in
            _ = try row.next(String.self)
        }
        #expect(json.message.contains("'data'"))
    }

    @Test("an array with a null member, or of two dimensions, is an error and no array")
    func arrayForm() async throws {
        for sql in ["SELECT ARRAY['a', NULL]", "SELECT ARRAY[['a'], ['b']]"] as [SQL] {
            let error = try await fault(sql) { row throws(PostgresError) in _ = try row.next([String].self) }
            #expect(error.message.contains("is not a text[]"))
        }
    }

    @Test("columns that are left over, missing, or of another name are errors")
    func columns() async throws {
        let left = try await fault("SELECT 1, 2, 3") { row throws(PostgresError) in _ = try row.next(Int.self) }
        #expect(left.message == "the statement returns 3 columns, and 1 are read")
        let missing = try await fault("SELECT 1") { row throws(PostgresError) in
            _ = try row.next(Int.self)
            _ = try row.next(Int.self)
        }
        #expect(missing.message == "the statement returns 1 columns, and more are read")
        let renamed = try await fault("SELECT 1 AS new_name") { row throws(PostgresError) in
            _ = try row.value("old_name", as: Int.self)
        }
        #expect(renamed.message == "the statement returns no column 'old_name'")
    }

    @Test("no row, or two, where one must be is an error", arguments: [0, 2])
    func rows(count: Int) async throws {
        let error = try await fault("SELECT \(Self.secret) FROM generate_series(1, \(count))") {
            row throws(PostgresError) in _ = try row.next(String.self)
        }
        #expect(error.message == "the statement returns \(count) rows instead of one")
    }

    private struct Numbers {
        var left: Int
        var right: Int?
    }

    private static let sum: PreparedStatement<Numbers> = "SELECT \(\.left) + coalesce(\(\.right), \(\.left))"

    @Test("a prepared statement takes other values each time, and outlives the loss of its name")
    func prepared() async throws {
        try await run { connection throws(PostgresError) in
            for (numbers, expected) in [(Numbers(left: 1, right: 2), 3), (Numbers(left: 5, right: nil), 10)] {
                let sum: Int = try connection.run(Self.sum, numbers).value()
                #expect(sum == expected)
            }
            try connection.script("DEALLOCATE ALL")
            let sum: Int = try connection.run(Self.sum, Numbers(left: 2, right: 2)).value()
            #expect(sum == 4)
        }
    }
}
