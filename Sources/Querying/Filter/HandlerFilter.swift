import Vocabulary

/// The conditions on `data` of a handler's `where`, which must all hold.
///
/// Every storing transaction evaluates them, whichever worker stores: as data that `upstream.wants` interprets, not as SQL.
package struct HandlerFilter: Sendable, Equatable {
    package let clauses: [HandlerClause]

    package init(_ clauses: [HandlerClause]) { self.clauses = clauses }

    /// The JSON of `upstream.handler_workers.filter`; nil without conditions.
    package var form: String? {
        clauses.isEmpty ? nil : "[" + clauses.map(\.form).joined(separator: ",") + "]"
    }

    /// The regular expressions, which only PostgreSQL can judge.
    package var expressions: [String] { clauses.compactMap(\.expression) }
}

/// A ``WhereClause`` of a handler.
package struct HandlerClause: Sendable, Equatable {
    /// The clause's JSON: its text, and what `upstream.wants` needs of it.
    fileprivate let form: String
    fileprivate let expression: String?

    /// Parses a clause.
    ///
    /// Refuses regular expressions that can take seconds over large data: it is a stranger's, and acks wait.
    package init(parsing text: String) throws(FilterError) {
        let clause = try WhereClause(parsing: text)
        if case .compares(.matches, let operand) = clause.test, let slow = Self.slowPart(operand.text) {
            let place = text.firstRange(of: slow).map { text.distance(from: text.startIndex, to: $0.lowerBound) } ?? 0
            throw FilterError(
                "a handler's regular expression can't have back references or look ahead or behind",
                in: text,
                at: place
            )
        }
        guard text.utf8.count <= FilterBounds.bytes else {
            throw FilterError("a clause has at most \(FilterBounds.bytes) bytes", in: text, at: 0)
        }
        self.init(clause)
    }

    /// Stands for a clause that can't be parsed.
    package static let placeholder = HandlerClause(form: "{}", expression: nil)

    private init(form: String, expression: String?) { (self.form, self.expression) = (form, expression) }

    private init(_ clause: WhereClause) {
        var json = JSONWriter()
        json.beginObject()
        json.member("text", clause.text)
        json.member("path", Self.arrayLiteral(clause.path))
        switch clause.test {
        case .exists: json.member("test", "exists")
        case .compares(let comparison, let operand):
            json.member("test", comparison.rawValue)
            // What the clause's SQL compares with: a number, or a text; in equations also the other reading of a word.
            if case .number(let text) = operand, comparison != .matches {
                json.member("is", json: Array(text.utf8))
                json.member("or", text)
            } else {
                json.member("is", operand.text)
            }
            if case .word(let word) = operand, ["true", "false", "null"].contains(word) {
                json.member("or", json: Array(word.utf8))
            }
        }
        json.endObject()
        let expression: String? = if case .compares(.matches, let operand) = clause.test { operand.text } else { nil }
        self.init(form: String(decoding: json.finish(), as: UTF8.self), expression: expression)
    }

    /// A clause's text for a reader with this sight: operands may be parts of payloads or tokens.
    package static func shown(_ text: String, to sight: Sight) -> String {
        guard !(sight.payloads && sight.tokens) else { return text }
        guard let clause = try? WhereClause(parsing: text) else { return Sight.hidden }
        return !sight.payloads || clause.mayNameToken ? clause.textWithoutOperand : text
    }

    /// The text form of a `text[]`.
    private static func arrayLiteral(_ names: [String]) -> String {
        "{" + names.map { $0.quoted(escapingWith: "\\") }.joined(separator: ",") + "}"
    }

    /// A back reference or the beginning of a lookaround: PostgreSQL tries the former anew for each division of the
    /// text, the latter at each place to its end.
    private static func slowPart(_ expression: String) -> String? {
        var rest = expression[...]
        while let first = rest.first {
            let next = rest.dropFirst()
            if first == "\\" {
                if let digit = next.first, ("1"..."9").contains(digit) { return "\\\(digit)" }
                rest = next.dropFirst()
            } else if ["(?=", "(?!", "(?<"].contains(where: rest.hasPrefix) {
                return String(rest.prefix(3))
            } else {
                rest = next
            }
        }
        return nil
    }
}
