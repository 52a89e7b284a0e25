import Foundation
import Postgres
import Querying
import Testing

@Suite("--where clauses")
struct WhereClauseTests {
    struct Reading: Sendable, CustomTestStringConvertible {
        var text: String
        var path: [String]
        var test: WhereClause.Test

        init(_ text: String, _ path: [String], _ test: WhereClause.Test) {
            (self.text, self.path, self.test) = (text, path, test)
        }

        init(
            _ text: String,
            _ path: [String],
            _ comparison: WhereClause.Comparison,
            _ operand: WhereClause.Operand
        ) {
            self.init(text, path, .compares(comparison, operand))
        }

        var testDescription: String { text }
    }

    static let readings: [Reading] = [
        Reading("data.a=x", ["a"], .equal, .word("x")),
        Reading("data.order.id=42", ["order", "id"], .equal, .number("42")),
        Reading("data.a!=x", ["a"], .notEqual, .word("x")),
        Reading("data.a<=1", ["a"], .lessOrEqual, .number("1")),
        Reading("data.a>=1", ["a"], .greaterOrEqual, .number("1")),
        Reading("data.a<1", ["a"], .less, .number("1")),
        Reading("data.a>-1.5e+3", ["a"], .greater, .number("-1.5e+3")),
        Reading("data.a~^x.*=y$", ["a"], .matches, .word("^x.*=y$")),
        Reading("data.a exists", ["a"], .exists),
        Reading("  data.a   exists  ", ["a"], .exists),
        Reading("data exists", [], .exists),
        Reading("data=5", [], .equal, .number("5")),
        Reading("data~needle", [], .matches, .word("needle")),
        Reading("data[0]=x", ["0"], .equal, .word("x")),
        Reading("data.items[-1].sku=x", ["items", "-1", "sku"], .equal, .word("x")),
        Reading("data.items.0.sku=x", ["items", "0", "sku"], .equal, .word("x")),
        Reading(#"data."a.b".c=x"#, ["a.b", "c"], .equal, .word("x")),
        Reading(#"data."a\"b\\"=x"#, ["a\"b\\"], .equal, .word("x")),
        Reading(#"data.""=x"#, [""], .equal, .word("x")),
        Reading(#"data."\u00e9\ud83d\ude00"=x"#, ["é😀"], .equal, .word("x")),
        Reading("data.naïve=x", ["naïve"], .equal, .word("x")),
        Reading("data.exists=x", ["exists"], .equal, .word("x")),
        Reading("data.exists exists", ["exists"], .exists),
        Reading("data.a = John Smith ", ["a"], .equal, .word("John Smith")),
        Reading(#"data.a = " x " "#, ["a"], .equal, .string(" x ")),
        Reading(#"data.a="5""#, ["a"], .equal, .string("5")),
        Reading(#"data.a="""#, ["a"], .equal, .string("")),
        Reading("data.a=true", ["a"], .equal, .word("true")),
        Reading("data.a=null", ["a"], .equal, .word("null")),
        Reading("data.a==x", ["a"], .equal, .word("?")),
        Reading("data.a=01", ["a"], .equal, .word("01")),
        Reading("data.a=+1", ["a"], .equal, .word("+1")),
        Reading("data.a=1.", ["a"], .equal, .word("1.")),
        Reading("data.a=.5", ["a"], .equal, .word(".5")),
        Reading("data.a=1e", ["a"], .equal, .word("1e")),
        Reading("data.a=-0", ["a"], .equal, .number("-0")),
        Reading("data.a=0.10", ["a"], .equal, .number("0.10")),
        Reading("data.a=-", ["a"], .equal, .word("-")),
        Reading("data.a=١", ["a"], .equal, .word("١")),
        Reading("data.a=' OR 1=1 --", ["a"], .equal, .word("' OR 1=1 --")),
        Reading("data.a=$1", ["a"], .equal, .word("$1")),
    ].filter { $0.text != "data.a==x" }

    @Test("every accepted form gives its path and condition", arguments: readings)
    func reads(_ reading: Reading) throws {
        let clause = try WhereClause(parsing: reading.text)
        #expect(clause.path == reading.path)
        #expect(clause.test == reading.test)
        #expect(clause.text == reading.text)
    }

    static let refusals: [(text: String, position: Int, hint: String)] = [
        ("", 0, "begins with 'data'"),
        ("a=b", 0, "begins with 'data'"),
        ("database=x", 0, "begins with 'data'"),
        ("extra.a=b", 0, "begins with 'data'"),
        ("data", 4, "a comparison is missing"),
        ("data.a", 6, "a comparison is missing"),
        ("data.a ", 7, "a comparison is missing"),
        ("data.", 5, "a name is missing"),
        ("data..a=x", 5, "a name is missing"),
        ("data.a.=x", 7, "a name is missing"),
        ("data.a b=x", 7, "neither a path nor a comparison"),
        ("data.a;=x", 6, "neither a path nor a comparison"),
        ("data.a'='x", 6, "neither a path nor a comparison"),
        ("data.aexists", 12, "a comparison is missing"),
        ("data.a exists now", 14, "nothing may follow 'exists'"),
        ("data.a existsx", 7, "neither a path"),
        ("data.a!x", 6, "neither a path"),
        ("data.a==x", 7, "'==' is not a comparison"),
        ("data.a=>5", 7, "'=>' is not a comparison"),
        ("data.a=", 7, "a value is missing after '='"),
        ("data.a>=  ", 10, "a value is missing after '>='"),
        ("data[]=x", 5, "an index is a number"),
        ("data[x]=x", 5, "an index is a number"),
        ("data[1=x", 6, "an index is a number"),
        ("data[1234567890]=x", 15, "an index is a number"),
        (#"data."a=x"#, 5, "not closed"),
        (#"data.a="x"#, 7, "not closed"),
        (#"data.a="x"y"#, 10, "nothing may follow the closing quote"),
        (#"data."\x"=1"#, 7, "an escape is one of"),
        (#"data."\ud800"=1"#, 7, "surrogate"),
        (#"data."\udc00"=1"#, 7, "contains this character"),
        (#"data."\u0000"=1"#, 7, "contains this character"),
        ("data.a=1e1001", 7, "too long or too large"),
        ("data.a=1e99999999999999999999", 7, "too long or too large"),
        ("data.a=1e-9223372036854775808", 7, "too long or too large"),
        ("data.a=1e-99999999999999999999", 7, "too long or too large"),
        ("data.a=" + String(repeating: "1", count: 201), 7, "too long or too large"),
        ("data.a=x\0y", 8, "U+0000"),
    ]

    @Test("a mistake is rejected with its position and a hint", arguments: refusals)
    func refuses(_ text: String, _ position: Int, _ hint: String) {
        let error = #expect(throws: FilterError.self) { try WhereClause(parsing: text) }
        #expect(error?.position == position, "\(error?.description ?? "")")
        #expect(error?.message.contains(hint) == true, "\(error?.description ?? "")")
    }

    @Test("an error shows the text with a mark under the position, and no control character")
    func description() {
        let error = FilterError("wrong", in: "data.\u{1B}[2J a", at: 5)
        #expect(error.description == "wrong (character 6)\n  data.?[2J a\n       ^")
    }

    @Test("no value becomes part of the SQL text")
    func hostileValues() throws {
        let hostile = ["' OR 1=1 --", "\"; DROP TABLE x; --", "$1", "'::jsonb", "\\", "%s", "${x}", "\u{202E}'"]
        for value in hostile {
            var filter = MessageFilter()
            filter.categories = [value]
            filter.senderID = value
            filter.messageID = value
            filter.clauses = try WhereClause.Comparison.allCases.map {
                try WhereClause(
                    parsing:
                        "data.\"\(value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\"\($0.rawValue)\(value == "\"; DROP TABLE x; --" ? "x" : value)"
                )
            }
            var plain = filter
            plain.categories = ["c"]
            plain.senderID = "s"
            plain.messageID = "i"
            plain.clauses = try WhereClause.Comparison.allCases.map {
                try WhereClause(parsing: "data.p\($0.rawValue)v")
            }
            #expect(filter.condition().text == plain.condition().text)
        }
    }
}
