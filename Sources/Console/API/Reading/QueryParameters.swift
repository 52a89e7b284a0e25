import HTTPTypes
import Hummingbird
import Querying
import UpstreamKit
import Vocabulary

/// A request's query parameters (`application/x-www-form-urlencoded`), read strictly.
///
/// Unknown or repeated names and text that is not UTF-8 are errors, so that a misspelt filter never selects everything.
struct QueryParameters: Sendable {
    /// The names that a route accepts.
    struct Names: Sendable {
        var single: [String]
        var repeatable: [String] = []

        var all: [String] { single + repeatable }
    }

    private var values: [String: [String]] = [:]

    init(_ request: Request, _ names: Names) throws(Problem) {
        for pair in (request.uri.query ?? "").split(separator: "&") {
            let equals = pair.firstIndex(of: "=") ?? pair.endIndex
            let name = try Self.decoded(pair[..<equals], "a parameter's name")
            guard names.all.contains(name) else { throw Self.unknown(name, names) }
            let text = equals == pair.endIndex ? "" : try Self.decoded(pair[pair.index(after: equals)...], "'\(name)'")
            values[name, default: []].append(text)
        }
        for (name, given) in values.sorted(by: { $0.key < $1.key }) where given.count > 1 {
            guard names.repeatable.contains(name) else {
                throw .badRequest("'\(name)' is given \(given.count) times; give it once")
            }
        }
        if let excess = FilterBounds.excess(in: values) { throw .badRequest(excess) }
    }

    /// A value; nil if not given.
    func text(_ name: String) -> String? { values[name]?.first }

    func texts(_ name: String) -> [String] { values[name] ?? [] }

    /// An integer within bounds.
    ///
    /// - Throws: A ``Problem`` with status 400.
    func integer(_ name: String, in range: ClosedRange<Int>, or standard: Int) throws(Problem) -> Int {
        guard let text = text(name) else { return standard }
        guard text.utf8.count < 20, let number = Int(text), range.contains(number) else {
            throw .badRequest("'\(name)' is a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// One of several words.
    ///
    /// - Throws: A ``Problem`` with status 400 and the likely word.
    func word<Word: RawRepresentable & CaseIterable>(
        _ name: String,
        _ type: Word.Type = Word.self
    ) throws(Problem) -> Word? where Word.RawValue == String {
        guard let text = text(name) else { return nil }
        if let word = Word(rawValue: text) { return word }
        let words = Word.allCases.map(\.rawValue)
        let hint = Suggestion.nearest(to: text, among: words).map { "; did you mean '\($0)'?" } ?? ""
        throw .badRequest("'\(name)' takes one of \(words.joined(separator: ", "))\(hint)")
    }

    /// The parameter `after`: an earlier answer's `next`.
    ///
    /// - Throws: A ``Problem`` with status 400.
    func cursor<Cursor>(_ parse: (String) -> Cursor?) throws(Problem) -> Cursor? {
        guard let text = text("after") else { return nil }
        guard let cursor = parse(text) else {
            throw .badRequest("'after' takes what an answer to the same request has given as 'next', unchanged")
        }
        return cursor
    }

    func messageKey(_ name: String) throws(Problem) -> MessageKey? {
        guard let text = text(name) else { return nil }
        guard let key = MessageKey(text) else {
            throw .badRequest("'\(name)' takes a message_key: 8-4-4-4-12 hexadecimal digits")
        }
        return key
    }

    private static func unknown(_ name: String, _ names: Names) -> Problem {
        let known = names.all.sorted()
        guard !known.isEmpty else { return .badRequest("this path takes no parameters") }
        let hint = Suggestion.nearest(to: name, among: known).map { "did you mean '\($0)'?" }
        return .badRequest(
            "unknown parameter '\(TerminalText.escape(String(name.prefix(64))))'; "
                + (hint ?? "there are \(known.joined(separator: ", "))")
        )
    }

    /// Replaces `%XX` and `+`.
    ///
    /// - Throws: A ``Problem`` for text that is not UTF-8, or has U+0000, which the database never stores.
    private static func decoded(_ text: Substring, _ name: String) throws(Problem) -> String {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(hexValue), let low = rest.popFirst().flatMap(hexValue) else {
                    throw .badRequest("\(name) has a '%' without two hexadecimal digits behind it")
                }
                bytes.append(high << 4 | low)
            default: bytes.append(byte)
            }
        }
        guard let decoded = String(validating: bytes, as: UTF8.self), !bytes.contains(0) else {
            throw .badRequest("\(name) is not UTF-8 without U+0000")
        }
        return decoded
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
