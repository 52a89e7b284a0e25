/// JSON text laid out over lines for people, piece by piece; names, strings and other values keep their spelling.
package struct JSONLayout {
    /// The deepest level that is indented.
    private static let deepest = 40

    package enum Content {
        /// A bracket, an empty container, or a separator.
        case mark(StaticString)
        /// A member's name.
        case name(Range<Int>)
        /// A string.
        case string(Range<Int>)
        /// Any other value, or text that is not JSON.
        case other(Range<Int>)
    }

    package struct Piece {
        package var content: Content
        package var beginsLine = false
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

    package var at: Int { tokens.at }

    /// The indentation of a line that begins here.
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

    /// About `limit` lines of a text, without their ends; what is not JSON is kept as it came.
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
                // No JSON string has a line end; in broken text it would begin another line.
                case .name(let range), .string(let range), .other(let range):
                    add(text[range].lazy.map { $0 == 0x0A ? 0x20 : $0 })
                }
                if piece.endsLine { begin() }
            }
            return lines.map { String(decoding: $0, as: UTF8.self) }
        }
    }
}
