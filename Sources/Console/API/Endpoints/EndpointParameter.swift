import Resources
import Vocabulary

/// What describes a parameter of an endpoint.
protocol EndpointParameter: Sendable {
    var name: StaticString { get }
    var place: ParameterPlace { get }
    var about: StaticString { get }
    var schema: String { get }
    var isRepeatable: Bool { get }
    var isRequired: Bool { get }
}

extension EndpointParameter {
    var isRepeatable: Bool { false }
    var isRequired: Bool { false }
}

enum ParameterPlace: String, Sendable {
    case query
    case path
    case header
}

/// A parameter with what reads its values.
struct Parameter<Value: Sendable>: EndpointParameter {
    let name: StaticString
    let place: ParameterPlace
    let about: StaticString
    let schema: String
    var isRequired: Bool
    /// What giving it takes besides the endpoint's own right.
    var right: ConsoleRight?
    /// Its value; the text is nil where it is not given.
    let read: @Sendable (String?) throws(Problem) -> Value

    init(
        _ name: StaticString,
        in place: ParameterPlace = .query,
        schema: String = #"{"type":"string"}"#,
        _ about: StaticString,
        _ read: @escaping @Sendable (String?) throws(Problem) -> Value
    ) {
        (self.name, self.place, self.schema, self.about, self.read) = (name, place, schema, about, read)
        isRequired = place == .path
    }
}

extension Parameter where Value == Int {
    static func integer(
        _ name: StaticString,
        _ range: ClosedRange<Int>,
        or standard: Int,
        _ about: StaticString
    ) -> Parameter {
        let (least, most) = (range.lowerBound, range.upperBound)
        let schema = #"{"type":"integer","minimum":\#(least),"maximum":\#(most),"default":\#(standard)}"#
        return Parameter(name, schema: schema, about) { text throws(Problem) in
            guard let text else { return standard }
            guard text.utf8.count < 20, let number = Int(text), range.contains(number) else {
                throw .badRequest("'\(name)' is a whole number from \(least) to \(most)")
            }
            return number
        }
    }

    static func limit(_ most: Int) -> Parameter {
        let about: StaticString = "The most rows. A page may end earlier, by its bytes; `next` then goes on behind it."
        return integer("limit", 1...most, or: 50, about)
    }
}

extension Parameter {
    /// One of some words, the first of which is meant without it.
    static func word<Word: RawRepresentable<String> & CaseIterable>(
        _ name: StaticString,
        _ about: StaticString
    ) -> Parameter where Value == Word? {
        let words = Word.allCases.map(\.rawValue)
        let list = words.map { "\"\($0)\"" }.joined(separator: ",")
        return Parameter(name, schema: #"{"type":"string","enum":[\#(list)]}"#, about) { text throws(Problem) in
            guard let text else { return nil }
            if let word = Word(rawValue: text) { return word }
            let hint = Suggestion.nearest(to: text, among: words).map { "; did you mean '\($0)'?" } ?? ""
            throw .badRequest("'\(name)' takes one of \(words.joined(separator: ", "))\(hint)")
        }
    }

    static func after<Cursor: Sendable>(
        about: StaticString = "Where the page before has ended: its `next`, unchanged.",
        _ parse: @escaping @Sendable (String) -> Cursor?
    ) -> Parameter where Value == Cursor? {
        Parameter("after", about) { text throws(Problem) in
            guard let text else { return nil }
            guard let cursor = parse(text) else {
                throw .badRequest("'after' takes what an answer to the same request has given as 'next', unchanged")
            }
            return cursor
        }
    }

    /// A part of the path, which is what `wanted` says.
    static func path(
        _ name: StaticString,
        schema: String = #"{"type":"string"}"#,
        _ about: StaticString,
        _ wanted: StaticString = "a name",
        _ parse: @escaping @Sendable (String) -> Value?
    ) -> Parameter {
        Parameter(name, in: .path, schema: schema, about) { text throws(Problem) in
            guard let value = text.flatMap(parse) else { throw .badRequest("'\(name)' in the path is \(wanted)") }
            return value
        }
    }
}

extension Parameter where Value == Digest128 {
    static func uuid(_ name: StaticString, _ about: StaticString) -> Parameter {
        let wanted: StaticString = "a UUID, 8-4-4-4-12 hexadecimal digits, as lists give it"
        return path(name, schema: #"{"type":"string","format":"uuid"}"#, about, wanted) { Digest128(uuid: $0.utf8) }
    }
}

/// What `?reveal=…` asks for.
enum Revealed: String, CaseIterable, Sendable { case token }

extension Parameter where Value == Revealed? {
    static var reveal: Parameter {
        let about: StaticString = "Shows registration tokens; needs the right to, and is recorded in the audit trail."
        var parameter: Parameter = .word("reveal", about)
        parameter.right = .reveal
        return parameter
    }
}

extension Filtered {
    static var parameters: [any EndpointParameter] { filters }
}

extension FilterField: EndpointParameter {
    var place: ParameterPlace { .query }

    var schema: String {
        let value =
            switch kind {
            case .text where hint.utf8CodeUnitCount == 0: #"{"type":"string"}"#
            case .text: #"{"type":"string","examples":["\#(hint)"]}"#
            case .clause: #"{"type":"string","examples":["data.total>=190"]}"#
            case .uuid: #"{"type":"string","format":"uuid"}"#
            case .time: #"{"type":"string","examples":["2h","yesterday","2026-01-31","2026-01-31T12:00:00Z"]}"#
            case .words(let words):
                #"{"type":"string","enum":[\#(words.map { "\"\($0)\"" }.joined(separator: ","))]}"#
            }
        return isRepeatable ? #"{"type":"array","items":\#(value),"minItems":1,"maxItems":100}"# : value
    }
}
