import Vocabulary

/// A piece of HTML, written as one text: `"<td>\(message.category)</td>"`.
///
/// Markup comes from literals in the source code alone (`StaticString`). Interpolated strings are escaped (`&`, `<`,
/// `>` and both quotes), so that they can stand between tags and in quoted attributes (HTML, 13.1.2.3 and 13.1.4).
/// Characters that are invisible or change the direction of text are shown by their number, since payloads, ids and
/// reasons come from strangers' devices.
package struct HTML: Sendable, ExpressibleByStringInterpolation {
    /// UTF-8.
    package private(set) var bytes: [UInt8]

    package init() { bytes = [] }

    package init(stringLiteral value: StaticString) {
        bytes = []
        value.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    package init(stringInterpolation: StringInterpolation) { bytes = stringInterpolation.bytes }

    fileprivate init(_ bytes: [UInt8]) { self.bytes = bytes }

    package var isEmpty: Bool { bytes.isEmpty }

    package static func + (lhs: HTML, rhs: HTML) -> HTML { HTML(lhs.bytes + rhs.bytes) }

    package static func += (lhs: inout HTML, rhs: HTML) { lhs.bytes += rhs.bytes }

    /// Puts the pieces together.
    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var bytes: [UInt8] = []

        package init(literalCapacity: Int, interpolationCount: Int) {
            bytes.reserveCapacity(literalCapacity + 16 * interpolationCount)
        }

        /// Appends markup from the source code.
        package mutating func appendLiteral(_ literal: StaticString) {
            literal.withUTF8Buffer { bytes.append(contentsOf: $0) }
        }

        /// Appends text on one line, with invisible characters shown by their number.
        package mutating func appendInterpolation(_ text: String) {
            PageText.append(TerminalText.escape(text), to: &bytes)
        }

        package mutating func appendInterpolation(_ text: String?) { if let text { appendInterpolation(text) } }

        /// Appends text exactly as it is: for a field's value, which is sent back, and for text of several lines.
        package mutating func appendInterpolation(exact text: String) { PageText.append(text, to: &bytes) }

        /// Appends a stranger's text between tags, isolated so that it can't change the direction of what surrounds it.
        package mutating func appendInterpolation(stranger text: String) {
            appendLiteral("<bdi>")
            PageText.append(marking: text, to: &bytes)
            appendLiteral("</bdi>")
        }

        /// Appends an integer without separators, as in attributes.
        package mutating func appendInterpolation(_ number: some BinaryInteger) {
            bytes.append(contentsOf: String(number).utf8)
        }

        package mutating func appendInterpolation(_ part: HTML) { bytes += part.bytes }

        package mutating func appendInterpolation(_ part: HTML?) { if let part { bytes += part.bytes } }

        package mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { bytes += part.bytes } }

        /// Appends an address of our own: the only thing allowed in `href`, `src` and `action`.
        package mutating func appendInterpolation(_ address: PageAddress) {
            PageText.append(address.text, to: &bytes)
        }
    }
}

extension HTML {
    /// A piece for each element.
    package init<Element>(_ elements: some Sequence<Element>, _ piece: (Element) -> HTML) {
        self.init()
        for element in elements { self += piece(element) }
    }

    package static func when(_ condition: Bool, _ piece: @autoclosure () -> HTML) -> HTML {
        condition ? piece() : HTML()
    }

    /// Bytes that are escaped already.
    static func escaped(_ write: (inout [UInt8]) -> Void) -> HTML {
        var bytes: [UInt8] = []
        write(&bytes)
        return HTML(bytes)
    }
}

enum PageText {
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
                // HTML has no U+0000: a parser replaces it (13.2.5).
                case 0: bytes.append(contentsOf: "\u{FFFD}".utf8)
                default: bytes.append(byte)
                }
            }
        }
    }

    /// Appends text, escaped, with a mark for each invisible character; `lines` keeps line ends and tabs.
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

    /// Whether a character is shown by its number: it is invisible or changes the direction of text.
    private static func isMarked(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: true
        default: TerminalText.isInvisible(scalar.value)
        }
    }

    /// A character's name in a mark: `\n`, `U+202E`.
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
