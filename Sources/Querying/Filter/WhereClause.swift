import Postgres
import Vocabulary

/// A condition on a message's `data`, as `--where` takes it: `data.order.id=42`.
///
/// | form | holds where |
/// |---|---|
/// | `data.a=x`, `data.a="x"` | the value is the string `x` |
/// | `data.a=5` | the value is the number 5, in any notation, or the string `5`; quoted only the string |
/// | `data.a=true` (`false`, `null`) | the value is that literal, or that string |
/// | `data.a!=x` | `data.a=x` does not hold, or there is no such value |
/// | `data.a<5` (`<=`, `>`, `>=`) | the value is a number, and less; other types never match |
/// | `data.a<x` | the value is a string that comes before it by Unicode code point |
/// | `data.a~x` | the POSIX regular expression matches the value's text; of an object or array, its JSON |
/// | `data.a exists` | there is such a value, null included |
///
/// A path steps into objects by name and into arrays by index: `data.items[0].sku`, from the end with `[-1]`. A name
/// with characters other than letters, digits, `_` and `-` is quoted: `data."a.b"`.
package struct WhereClause: Sendable {
    package enum Comparison: String, Sendable, CaseIterable {
        case equal = "="
        case notEqual = "!="
        case less = "<"
        case lessOrEqual = "<="
        case greater = ">"
        case greaterOrEqual = ">="
        case matches = "~"
    }

    package enum Operand: Sendable, Equatable {
        /// Written in quotes: only a string.
        case string(String)
        /// Written as a JSON number, in this notation.
        case number(String)
        /// Anything else: a string, or one of the words `true`, `false` and `null`.
        case word(String)

        package var text: String {
            switch self {
            case .string(let text), .number(let text), .word(let text): text
            }
        }
    }

    package enum Test: Sendable, Equatable {
        case exists
        case compares(Comparison, Operand)
    }

    package let text: String
    /// Names and indexes from the root of `data` to the value; empty for the root itself.
    package let path: [String]
    package let test: Test

    /// Parses a clause in one of the forms in the table above.
    package init(parsing text: String) throws(FilterError) {
        var parser = WhereParser(text)
        self.text = text
        (path, test) = try parser.parse()
    }

    /// Whether its path leads to, or into, a receipt's registration token.
    package var isOnToken: Bool { path.contains(TokenMask.member) }

    /// The clause with an ellipsis for its operand.
    package var textWithoutOperand: String {
        let steps = path.map { name in
            let isPlain =
                !name.isEmpty && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "_-".contains($0)) }
            return isPlain ? name : name.quoted(escapingWith: "\\")
        }
        let place = (["data"] + steps).joined(separator: ".")
        return switch test {
        case .exists: place + " exists"
        case .compares(let comparison, _): place + comparison.rawValue + "…"
        }
    }

    /// The clause without its operand in the text, for display only.
    var withoutOperand: WhereClause { WhereClause(textWithoutOperand, self) }

    private init(_ text: String, _ clause: WhereClause) {
        (self.text, path, test) = (text, clause.path, clause.test)
    }

    /// Whether its operand may be a registration token or part of one.
    var mayNameToken: Bool {
        switch test {
        case .exists: false
        case .compares(.matches, _): true
        case .compares(_, let operand): isOnToken || TokenText.mayHold(Array(operand.text.utf8))
        }
    }
}

extension WhereClause {
    /// The clause as a condition on the row named `alias`.
    ///
    /// `data::jsonb` never fails: what jsonb rejects is in `data_raw`, and such rows match no clause.
    ///
    /// Without `seesTokens`, neither a regular expression nor an order matches a value whose text holds
    /// ``TokenMask/member`` or the device's own token: repeated queries would reveal the token letter by letter.
    /// Clauses on the member itself are refused earlier.
    func condition(alias: String, seesTokens: Bool = true) -> SQL {
        let data: SQL = "\(raw: alias).data::jsonb"
        switch test {
        case .exists: return "(\(data) #> \(path)) IS NOT NULL"
        case .compares(let comparison, let operand):
            switch comparison {
            case .matches:
                return guarded("(\(data) #>> \(path)) ~ \(operand.text)", alias, seesTokens)
            case .equal: return equality(data, operand)
            case .notEqual: return "(\(equality(data, operand))) IS NOT TRUE"
            case .less, .lessOrEqual, .greater, .greaterOrEqual:
                // A jsonpath compares numbers with numbers and strings with strings, and evaluates the path once.
                let compares: SQL = """
                    jsonb_path_exists(\(data) #> \(path), 'strict $ ? (@ \(raw: comparison.rawValue) $x)', \
                    jsonb_build_object('x', \(Self.jsonb(operand))))
                    """
                if case .number = operand { return compares }
                return guarded(compares, alias, seesTokens)
            }
        }
    }

    /// Guards a condition that could reveal a token letter by letter.
    ///
    /// jsonb's text has the member's name without escapes; JSON or a URL inside a string may escape it.
    private func guarded(_ condition: SQL, _ alias: String, _ seesTokens: Bool) -> SQL {
        guard !seesTokens else { return condition }
        let text: SQL = "\(raw: alias).data::jsonb #>> \(path)"
        let token: SQL = "\(raw: alias).registration_token"
        return """
            (strpos(\(text), \(TokenMask.member)) = 0 AND (\(text)) !~ \(Self.escapes) \
            AND (octet_length(\(token)) < \(TokenMask.shortest) OR strpos(\(text), \(token)) = 0) AND \(condition))
            """
    }

    /// Escapes of the characters of the name, or of an escape: letters, digits, `_`, `%` and the backslash.
    ///
    /// RFC 8259, section 7; RFC 3986, section 2.1: URLs have no need to escape them.
    private static let escapes = #"(\\u00|%)(25|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[cCfF])"#

    private func equality(_ data: SQL, _ operand: Operand) -> SQL {
        var choices = [Self.jsonb(operand)]
        switch operand {
        case .string: break
        case .number(let text): choices.append(Self.jsonb(.string(text)))
        // Fixed text, not user input.
        case .word("true"): choices.append("'true'::jsonb")
        case .word("false"): choices.append("'false'::jsonb")
        case .word("null"): choices.append("'null'::jsonb")
        case .word: break
        }
        return "(\(data) #> \(path)) = ANY (ARRAY[\(SQL.joined(choices, separator: ", "))])"
    }

    private static func jsonb(_ operand: Operand) -> SQL {
        switch operand {
        case .number(let text): "to_jsonb(\(text)::text::numeric)"
        case .string(let text), .word(let text): "to_jsonb(\(text)::text)"
        }
    }
}
