package import Querying
import Vocabulary

/// What somebody writes into a search box: the fields of a filter (`category:orders since:2h data.total>=100`), or one id
/// or key, or the beginning of a key.
///
/// A value with spaces or quotation marks is quoted: `message_id:"a b"`, with `\"` and `\\`.
package struct SearchTerms: Sendable, Equatable {
    /// Of a term that can't be understood: which, and what is allowed.
    package struct Mistake: Error, Sendable, Equatable {
        package let term: String
        package let text: String
    }

    /// What is written, by the fields' names.
    package private(set) var values: [String: [String]] = [:]
    /// A word without a name: an id, a key or its beginning.
    package private(set) var reference: String?
    /// The handler that is asked for, which no message has.
    package private(set) var handler: String?

    /// Reads terms as a filter's fields.
    package init<Filter: Filtered>(_ text: String, of _: Filter.Type) throws(Mistake) {
        let words = try Self.words(text)
        for word in words { try add(word, Filter.filters) }
        let alone = reference ?? handler.map { "handler:\($0)" }
        guard let alone, words.count > 1 else { return }
        throw Mistake(
            term: alone,
            text: "this goes alone; beside others a term has a name: \(Self.allowed(Filter.filters))"
        )
    }

    /// Throws at the first value that the filter's fields don't take.
    package func check<Filter: Filtered>(as _: Filter.Type, sight: Sight) throws(Mistake) {
        guard let mistake = Asked<Filter>(lenient: values, sight: sight).mistakes.first else { return }
        let value = values[mistake.name, default: []].joined(separator: " ")
        throw Mistake(term: mistake.name == "where" ? value : "\(mistake.name):\(value)", text: mistake.text)
    }

    private mutating func add<Filter>(_ word: Word, _ fields: [FilterField<Filter>]) throws(Mistake) {
        guard let name = word.name else {
            if word.isClause { return values["where", default: []].append(word.value) }
            guard reference == nil, !word.value.isEmpty else {
                throw Mistake(term: word.text, text: "one id or key goes alone; \(Self.allowed(fields))")
            }
            reference = word.value
            return
        }
        guard !word.value.isEmpty else { throw Mistake(term: word.text, text: "a value is missing") }
        if name == "handler" {
            handler = word.value
            return
        }
        guard let field = fields.first(where: { $0.name.description == name }) else {
            let hint = Suggestion.nearest(to: name, among: Self.names(fields)).map { "did you mean '\($0):'? " } ?? ""
            throw Mistake(term: word.text, text: "\(hint)\(Self.allowed(fields)); an id with a colon is quoted")
        }
        guard field.isRepeatable || values[name] == nil else {
            throw Mistake(term: word.text, text: "'\(name):' is given twice")
        }
        values[name, default: []].append(word.value)
    }

    private static func names<Filter>(_ fields: [FilterField<Filter>]) -> [String] {
        fields.map(\.name.description).filter { $0 != "where" } + ["handler"]
    }

    private static func allowed<Filter>(_ fields: [FilterField<Filter>]) -> String {
        "allowed are \(names(fields).map { $0 + ":" }.joined(separator: ", ")), conditions such as data.total>=100"
    }

    // MARK: Words

    private struct Word {
        /// As it is written.
        var text: String
        /// What stands before the colon; nil for none.
        var name: String?
        var value: String
        var isClause: Bool { name == nil && SearchTerms.isClause(text) }
    }

    /// Whether a word begins as a condition on data does.
    private static func isClause(_ word: String) -> Bool {
        word.prefixMatch(of: /data(?:[.\[=!<>~]|$)/) != nil
    }

    /// Splits at spaces outside quotation marks.
    private static func words(_ text: String) throws(Mistake) -> [Word] {
        var parts: [String] = []
        var (part, isQuoted, isEscaped) = ("", false, false)
        for character in text {
            if character.isWhitespace, !isQuoted {
                if !part.isEmpty { parts.append(part) }
                part = ""
                continue
            }
            part.append(character)
            if isEscaped {
                isEscaped = false
            } else if character == "\"" {
                isQuoted.toggle()
            } else if character == "\\", isQuoted {
                isEscaped = true
            }
        }
        guard !isQuoted else { throw Mistake(term: part, text: "the quotation mark is not closed") }
        if !part.isEmpty { parts.append(part) }
        var words: [Word] = []
        for part in parts {
            // `data.a exists` is one condition.
            if part == "exists", let last = words.last, last.isClause {
                let clause = last.text + " exists"
                words[words.count - 1] = Word(text: clause, value: clause)
            } else {
                words.append(word(part))
            }
        }
        return words
    }

    private static func word(_ text: String) -> Word {
        guard !isClause(text), let match = text.wholeMatch(of: /([A-Za-z_]+):(.*)/) else {
            return Word(text: text, value: isClause(text) ? text : unquoted(text))
        }
        return Word(text: text, name: String(match.1), value: unquoted(String(match.2)))
    }

    private static func unquoted(_ text: String) -> String {
        guard text.count >= 2, text.hasPrefix("\""), text.hasSuffix("\"") else { return text }
        var (plain, isEscaped) = ("", false)
        for character in text.dropFirst().dropLast() {
            if character == "\\", !isEscaped {
                isEscaped = true
            } else {
                plain.append(character)
                isEscaped = false
            }
        }
        return plain
    }
}

extension Asked {
    /// What is asked for as ``SearchTerms`` reads it.
    package var terms: String {
        Filter.filters.flatMap { field in self[field].map { Self.term(field.name.description, $0) } }
            .joined(separator: " ")
    }

    private static func term(_ name: String, _ value: String) -> String {
        // A condition that is read as it stands needs no name.
        if name == "where", let read = try? SearchTerms(value, of: Filter.self), read.values == ["where": [value]] {
            return value
        }
        let isPlain = !value.isEmpty && !value.contains { $0.isWhitespace || $0 == "\"" || $0 == "\\" }
        let escaped = value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        return "\(name):" + (isPlain ? value : "\"\(escaped)\"")
    }
}
