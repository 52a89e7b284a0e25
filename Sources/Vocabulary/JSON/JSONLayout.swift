/// JSON text laid out over lines for people, piece by piece; names, strings and other values stay as they were written.
package struct JSONLayout {
    /// Further levels are not indented any more.
    private static let deepest = 40

    /// What stands on a line.
    package enum Content {
        /// A bracket, an empty container, or what separates.
        case mark(StaticString)
        /// A member's name.
        case name(Range<Int>)
        /// A string.
        case string(Range<Int>)
        /// Any other value, or what is no JSON.
        case other(Range<Int>)
    }

    /// One piece of a line.
    package struct Piece {
        /// What it shows.
        package var content: Content
        /// Whether a line begins with it.
        package var beginsLine = false
        /// Whether a line begins behind it.
        package var endsLine = false
    }

    private let text: UnsafeBufferPointer<UInt8>
    private var tokens: JSONTokens
    private var depth = 0

    /// The layout of a text that outlives this value.
    package init(_ text: UnsafeBufferPointer<UInt8>) {
        self.text = text
        tokens = JSONTokens(text)
    }

    /// The offset behind the last piece.
    package var at: Int { tokens.at }

    /// The spaces that a line begins with here.
    package var indentation: Int { min(depth, Self.deepest) * 2 }

    /// The next piece; nil at the end.
    package mutating func next() -> Piece? {
        guard let token = tokens.next() else { return nil }
        switch token.kind {
        case .object, .array:
            let isObject = token.kind == .object
            var ahead = tokens
            if let next = ahead.next(), text[next.range.lowerBound] == text[token.range.lowerBound] + 2 {
                tokens = ahead
                return Piece(content: .mark(isObject ? "{}" : "[]"))
            }
            depth += 1
            return Piece(content: .mark(isObject ? "{" : "["), endsLine: true)
        case .end:
            depth = max(0, depth - 1)
            return Piece(
                content: .mark(text[token.range.lowerBound] == UInt8(ascii: "}") ? "}" : "]"),
                beginsLine: true
            )
        case .comma: return Piece(content: .mark(","), endsLine: true)
        case .colon: return Piece(content: .mark(": "))
        case .name: return Piece(content: .name(token.range))
        case .string: return Piece(content: .string(token.range))
        case .other: return Piece(content: .other(token.range))
        }
    }

    /// A text's lines.
    ///
    /// - Parameters:
    ///   - json: A JSON text; of another one, what is no JSON stands there as it came.
    ///   - limit: About how many lines are wanted.
    /// - Returns: The lines without their ends.
    package static func lines(_ json: [UInt8], limit: Int = .max) -> [String] {
        json.withUnsafeBufferPointer { text in
            var layout = JSONLayout(text)
            var lines: [[UInt8]] = [[]]
            func add(_ bytes: some Sequence<UInt8>) { lines[lines.count - 1] += bytes }
            func begin() { lines.append([UInt8](repeating: UInt8(ascii: " "), count: layout.indentation)) }
            while lines.count <= limit, let piece = layout.next() {
                if piece.beginsLine { begin() }
                switch piece.content {
                case .mark(let mark): mark.withUTF8Buffer { add($0) }
                // A line end is no part of a JSON string; in what is none it would begin another line.
                case .name(let range), .string(let range), .other(let range):
                    add(text[range].lazy.map { $0 == 0x0A ? 0x20 : $0 })
                }
                if piece.endsLine { begin() }
            }
            return lines.map { String(decoding: $0, as: UTF8.self) }
        }
    }
}
