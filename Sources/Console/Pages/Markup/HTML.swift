import Vocabulary

/// A piece of HTML, written as one text: `"<td>\(message.category)</td>"`.
///
/// Markup comes from literals of the source code alone (`StaticString`); whatever is interpolated as a string is text and
/// becomes no markup: `&`, `<`, `>` and both quotes are escaped, so that it can stand between tags and in quoted
/// attributes (HTML, 13.1.2.3 and 13.1.4). Characters that are not seen or that turn the direction of text are shown by
/// their number, since payloads, ids and reasons come from strangers' devices.
package struct HTML: Sendable, ExpressibleByStringInterpolation {
    /// UTF-8.
    package private(set) var bytes: [UInt8]

    /// Nothing.
    package init() { bytes = [] }

    /// Markup.
    package init(stringLiteral value: StaticString) {
        bytes = []
        value.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    /// Markup with text in it.
    package init(stringInterpolation: StringInterpolation) { bytes = stringInterpolation.bytes }

    fileprivate init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Whether there is nothing in it.
    package var isEmpty: Bool { bytes.isEmpty }

    /// The two in a row.
    package static func + (lhs: HTML, rhs: HTML) -> HTML { HTML(lhs.bytes + rhs.bytes) }

    /// Appends the other.
    package static func += (lhs: inout HTML, rhs: HTML) { lhs.bytes += rhs.bytes }

    /// Puts the pieces together.
    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var bytes: [UInt8] = []

        /// Nothing yet.
        package init(literalCapacity: Int, interpolationCount: Int) {
            bytes.reserveCapacity(literalCapacity + 16 * interpolationCount)
        }

        /// Markup of the source code.
        package mutating func appendLiteral(_ literal: StaticString) {
            literal.withUTF8Buffer { bytes.append(contentsOf: $0) }
        }

        /// Text on one line; what is not seen is shown by its number.
        package mutating func appendInterpolation(_ text: String) {
            PageText.append(TerminalText.escape(text), to: &bytes)
        }

        /// A text that may be missing.
        package mutating func appendInterpolation(_ text: String?) { if let text { appendInterpolation(text) } }

        /// Text exactly as it is: for a field's value, which is sent back, and for text over several lines.
        package mutating func appendInterpolation(exact text: String) { PageText.append(text, to: &bytes) }

        /// Text from a stranger between tags, kept from turning the direction of what stands around it.
        package mutating func appendInterpolation(stranger text: String) {
            appendLiteral("<bdi>")
            PageText.append(marking: text, to: &bytes)
            appendLiteral("</bdi>")
        }

        /// A whole number without separators, as attributes have it.
        package mutating func appendInterpolation(_ number: some BinaryInteger) {
            bytes.append(contentsOf: String(number).utf8)
        }

        /// Another piece.
        package mutating func appendInterpolation(_ part: HTML) { bytes += part.bytes }

        /// Another piece, if there is one.
        package mutating func appendInterpolation(_ part: HTML?) { if let part { bytes += part.bytes } }

        /// Pieces in a row.
        package mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { bytes += part.bytes } }

        /// An address of our own, for `href`, `src` and `action`; the only thing that may stand there.
        package mutating func appendInterpolation(_ address: PageAddress) {
            PageText.append(address.text, to: &bytes)
        }
    }
}

extension HTML {
    /// A piece for each element, in a row.
    package init<Element>(_ elements: some Sequence<Element>, _ piece: (Element) -> HTML) {
        self.init()
        for element in elements { self += piece(element) }
    }

    /// A piece where a condition holds.
    package static func when(_ condition: Bool, _ piece: @autoclosure () -> HTML) -> HTML {
        condition ? piece() : HTML()
    }

    /// JSON made for people, and other pieces that are written byte by byte.
    static func escaped(_ write: (inout [UInt8]) -> Void) -> HTML {
        var bytes: [UInt8] = []
        write(&bytes)
        return HTML(bytes)
    }
}

/// How text becomes HTML.
enum PageText {
    /// Appends text with its escapes.
    static func append(_ text: String, to bytes: inout [UInt8]) {
        var text = text
        text.withUTF8 { utf8 in
            for byte in utf8 {
                switch byte {
                case UInt8(ascii: "&"): bytes.append(contentsOf: "&amp;".utf8)
                case UInt8(ascii: "<"): bytes.append(contentsOf: "&lt;".utf8)
                case UInt8(ascii: ">"): bytes.append(contentsOf: "&gt;".utf8)
                case UInt8(ascii: "\""): bytes.append(contentsOf: "&quot;".utf8)
                case UInt8(ascii: "'"): bytes.append(contentsOf: "&#39;".utf8)
                // HTML knows no U+0000: a parser replaces it (13.2.5).
                case 0: bytes.append(contentsOf: "\u{FFFD}".utf8)
                default: bytes.append(byte)
                }
            }
        }
    }

    /// Appends text with its escapes; each character that is not seen becomes a mark with its number.
    ///
    /// - Parameters:
    ///   - text: The text.
    ///   - lines: Whether line ends and tabs stay as they are.
    ///   - bytes: Takes the HTML.
    static func append(marking text: String, lines: Bool = false, to bytes: inout [UInt8]) {
        let isPlain = text.utf8.allSatisfy { (0x20..<0x7F).contains($0) }
        guard !isPlain else { return append(text, to: &bytes) }
        var run = String.UnicodeScalarView()
        func flush() {
            append(String(run), to: &bytes)
            run = String.UnicodeScalarView()
        }
        for scalar in text.unicodeScalars {
            guard !(lines && (scalar == "\n" || scalar == "\t")), isMarked(scalar) else {
                run.append(scalar)
                continue
            }
            flush()
            bytes.append(contentsOf: "<span class=\"mark\">".utf8)
            append(name(of: scalar), to: &bytes)
            bytes.append(contentsOf: "</span>".utf8)
        }
        flush()
    }

    /// Whether a character is shown by its number: it is not seen, takes no place or turns the direction of text.
    private static func isMarked(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: true
        default: TerminalText.isInvisible(scalar.value)
        }
    }

    /// How a mark names a character: `\n`, `U+202E`.
    private static func name(of scalar: Unicode.Scalar) -> String {
        switch scalar {
        case "\n": return "\\n"
        case "\r": return "\\r"
        case "\t": return "\\t"
        default:
            let digits = String(scalar.value, radix: 16, uppercase: true)
            return "U+" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
        }
    }
}
