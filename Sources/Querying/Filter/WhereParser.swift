struct WhereParser {
    private let text: String
    private let characters: [Character]
    private var position = 0

    /// More digits, or a larger exponent, than any real-world number has; within the range of `numeric`.
    private static let longestNumber = 200
    private static let largestExponent = 1_000

    init(_ text: String) {
        self.text = text
        characters = Array(text)
    }

    mutating func parse() throws(FilterError) -> ([String], WhereClause.Test) {
        if let nul = characters.firstIndex(where: { $0.unicodeScalars.contains("\0") }) {
            throw FilterError("a clause can't hold U+0000", in: text, at: nul)
        }
        skipSpaces()
        let path = try parsePath()
        let start = position
        skipSpaces()
        if isAtWord("exists"), position > start {
            position += 6
            skipSpaces()
            guard position == characters.count else { throw error("nothing may follow 'exists'") }
            return (path, .exists)
        }
        let comparison = try parseComparison()
        skipSpaces()
        return (path, .compares(comparison, try parseOperand(comparison)))
    }

    // MARK: Path

    private mutating func parsePath() throws(FilterError) -> [String] {
        guard isAtWord("data") else { throw error("a clause begins with 'data', for example data.order.id=42") }
        position += 4
        var path: [String] = []
        while let next = peek {
            switch next {
            case ".":
                position += 1
                path.append(peek == "\"" ? try parseQuoted() : try parseName())
            case "[": path.append(try parseIndex())
            default: return path
            }
        }
        return path
    }

    private mutating func parseName() throws(FilterError) -> String {
        let start = position
        while let next = peek, next.isLetter || next.isNumber || next == "_" || next == "-" { position += 1 }
        guard position > start else {
            throw error("a name is missing after '.'; names with other characters are quoted: data.\"a.b\"")
        }
        return String(characters[start..<position])
    }

    private mutating func parseIndex() throws(FilterError) -> String {
        position += 1
        let start = position
        if peek == "-" { position += 1 }
        let digits = position
        while let next = peek, next.isASCII, next.isNumber { position += 1 }
        guard (1...9).contains(position - digits), peek == "]" else {
            throw error("an index is a number in brackets, for example [0], or [-1] for the last")
        }
        position += 1
        return String(characters[start..<(position - 1)])
    }

    // MARK: Comparison

    private mutating func parseComparison() throws(FilterError) -> WhereClause.Comparison {
        // The longest first.
        for comparison in WhereClause.Comparison.allCases.sorted(by: { $0.rawValue.count > $1.rawValue.count })
        where isAt(comparison.rawValue) {
            position += comparison.rawValue.count
            if comparison == .equal, let next = peek, "=<>~".contains(next) {
                throw error(
                    "'=\(next)' is not a comparison: use = != < <= > >= ~; quote a value that begins like this"
                )
            }
            return comparison
        }
        let isBare = position == characters.count
        throw error(
            (isBare ? "a comparison is missing" : "this is neither a path nor a comparison")
                + ": = != < <= > >= ~ or the word exists"
        )
    }

    private mutating func parseOperand(
        _ comparison: WhereClause.Comparison
    ) throws(FilterError) -> WhereClause.Operand {
        if peek == "\"" {
            let quoted = try parseQuoted()
            skipSpaces()
            guard position == characters.count else { throw error("nothing may follow the closing quote") }
            return .string(quoted)
        }
        var end = characters.count
        while end > position, characters[end - 1] == " " { end -= 1 }
        guard end > position else {
            throw error("a value is missing after '\(comparison.rawValue)'; the empty string is \"\"")
        }
        let value = String(characters[position..<end])
        guard let exponent = Self.exponentOfNumber(value) else { return .word(value) }
        let isBounded = (-Self.largestExponent...Self.largestExponent).contains(exponent)
        guard value.utf8.count <= Self.longestNumber, isBounded else {
            throw error("this number is too long or too large to compare with; in quotes it is a string")
        }
        return .number(value)
    }

    /// The exponent of a JSON number (RFC 8259 §6), 0 if it has none; nil for any other text.
    private static func exponentOfNumber(_ text: String) -> Int? {
        let number = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE]([-+]?[0-9]+))?/
        guard let match = text.wholeMatch(of: number) else { return nil }
        return match.output.1.map { Int($0) ?? Int.max / 2 } ?? 0
    }

    // MARK: Strings

    private mutating func parseQuoted() throws(FilterError) -> String {
        let start = position
        position += 1
        var value = ""
        while let next = peek {
            position += 1
            switch next {
            case "\"": return value
            case "\\": value.unicodeScalars.append(try parseEscape())
            default: value.append(next)
            }
        }
        position = start
        throw error("the quote is not closed")
    }

    private mutating func parseEscape() throws(FilterError) -> Unicode.Scalar {
        let escapes: [Character: Unicode.Scalar] = [
            "\"": "\"", "\\": "\\", "/": "/", "b": "\u{8}", "f": "\u{C}", "n": "\n", "r": "\r", "t": "\t",
        ]
        guard let mark = peek else { throw error("incomplete escape") }
        if let plain = escapes[mark] {
            position += 1
            return plain
        }
        guard mark == "u", let first = hexUnit(at: position + 1) else {
            throw error("an escape is one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\u and four hex digits")
        }
        if UTF16.isLeadSurrogate(first) {
            guard isAt("\\u", at: position + 5), let second = hexUnit(at: position + 7), UTF16.isTrailSurrogate(second)
            else { throw error("half of a surrogate pair, which no stored string contains") }
            position += 11
            return UTF16.decode(UTF16.EncodedScalar([first, second]))
        }
        guard let scalar = Unicode.Scalar(first), first != 0 else {
            throw error("no stored string contains this character")
        }
        position += 5
        return scalar
    }

    private func hexUnit(at start: Int) -> UInt16? {
        guard start + 4 <= characters.count else { return nil }
        let digits = characters[start..<(start + 4)]
        guard digits.allSatisfy({ $0.isASCII && $0.isHexDigit }) else { return nil }
        return UInt16(String(digits), radix: 16)
    }

    // MARK: Reading

    private var peek: Character? { position < characters.count ? characters[position] : nil }

    private mutating func skipSpaces() {
        while peek == " " { position += 1 }
    }

    private func isAt(_ word: String, at start: Int? = nil) -> Bool {
        characters.dropFirst(start ?? position).starts(with: word)
    }

    /// Whether this word comes next, and not a longer one.
    private func isAtWord(_ word: String) -> Bool {
        guard isAt(word) else { return false }
        guard let next = characters.dropFirst(position + word.count).first else { return true }
        return !(next.isLetter || next.isNumber || next == "_")
    }

    private func error(_ message: String) -> FilterError { FilterError(message, in: text, at: position) }
}
