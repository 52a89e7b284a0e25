import Testing
import Vocabulary

@testable import Postgres

/// Statements as values: how their texts and parameters are put together, without a server.
@Suite("statements with bound parameters")
struct SQLTests {
    @Test("parameters are numbered from left to right, and nothing of them is in the text")
    func numbering() {
        let (name, due) = ("'; DROP TABLE t; --", Timestamp(microseconds: 5))
        let sql: SQL = "SELECT a FROM t WHERE name = \(name) AND due <= \(due) OR name = \(name)"
        #expect(sql.text == "SELECT a FROM t WHERE name = $1 AND due <= $2 OR name = $3")
        #expect(sql.types == [25, 1184, 25])
    }

    @Test("a statement without parameters is its text")
    func plain() {
        let sql: SQL = "SELECT 1"
        #expect(sql.text == "SELECT 1" && sql.types.isEmpty)
    }

    @Test("parts that nest are numbered with the whole, each at its place")
    func nesting() {
        let inner: SQL = "b = \(2) AND c = \("three")"
        let middle: SQL = "(\(inner) OR d = \(true))"
        let whole: SQL = "SELECT a WHERE a = \(Int64(1)) AND \(middle) AND e = \(5)"
        #expect(whole.text == "SELECT a WHERE a = $1 AND (b = $2 AND c = $3 OR d = $4) AND e = $5")
        #expect(whole.types == [20, 20, 25, 16, 20])
        // The part itself is unchanged, and numbers of its own begin at 1.
        #expect(inner.text == "b = $1 AND c = $2")
    }

    @Test("joined parts have the separator between them, and none before the first")
    func joined() {
        #expect(SQL.joined([], separator: " AND ").text.isEmpty)
        #expect(SQL.joined(["a = \(1)"], separator: " AND ").text == "a = $1")
        let three = SQL.joined(["a = \(1)", "b", "c = \("x")"], separator: " AND ")
        #expect(three.text == "a = $1 AND b AND c = $2")
        #expect(three.types == [20, 25])
    }

    @Test("fixed text goes in as it stands")
    func raw() {
        let table = "upstream.messages"
        let sql: SQL = "SELECT a FROM \(raw: table) WHERE b = \(1)"
        #expect(sql.text == "SELECT a FROM upstream.messages WHERE b = $1")
    }

    @Test("every Swift type has its PostgreSQL type, null or not, alone or in an array")
    func types() {
        let scalars: SQL = """
            \("") \(1) \(Int64(1)) \(true) \(Timestamp(microseconds: 0)) \(Digest128(high: 0, low: 0)) \(Bytea([])) \
            \(JSONColumn(utf8: []))
            """
        #expect(scalars.types == [25, 20, 20, 16, 1184, 2950, 17, 114])
        let nulls: SQL = """
            \(String?.none) \(Int?.none) \(Int64?.none) \(Bool?.none) \(Timestamp?.none) \(Digest128?.none) \
            \(Bytea?.none) \(JSONColumn?.none)
            """
        #expect(nulls.types == scalars.types)
        let arrays: SQL = """
            \([String]()) \([Int]()) \([Int64]()) \([Bool]()) \([Timestamp]()) \([Digest128]()) \([Bytea]()) \
            \([JSONColumn]())
            """
        #expect(arrays.types == [1009, 1016, 1016, 1000, 1185, 2951, 1001, 199])
        let noArray: SQL = "\([String]?.none)"
        #expect(noArray.types == [1009])
    }

    private struct Claim {
        var handler: String
        var token: Int64
        var until: Timestamp?
    }

    @Test("a prepared statement's parameters are members of a value, and a member has one number, in its parts too")
    func prepared() {
        let isOwn: PreparedStatement<Claim> = "handler = \(\.handler) AND token = \(\.token)"
        let statement: PreparedStatement<Claim> = """
            UPDATE t SET until = \(\.until) WHERE \(isOwn) OR handler = \(\.handler) LIMIT \(raw: "9")
            """
        #expect(
            statement.statement.sql
                == "UPDATE t SET until = $1 WHERE handler = $2 AND token = $3 OR handler = $2 LIMIT 9"
        )
        #expect(statement.types == [1184, 25, 20])
        let parameters = statement.parameters(Claim(handler: "h", token: 7, until: nil))
        let types = parameters.slots.map(\.oid)
        #expect(types == statement.types)
        #expect(parameters.slots.map(\.count) == [-1, 1, 8])
    }

    @Test("statements of one text share a name on the server, and others have another")
    func names() {
        let one: PreparedStatement<Claim> = "SELECT \(\.token)"
        let same: PreparedStatement<Claim> = "SELECT \(\.token)"
        let other: PreparedStatement<Claim> = "SELECT  \(\.token)"
        #expect(one.statement.name == same.statement.name && one.statement.name != other.statement.name)
    }
}
