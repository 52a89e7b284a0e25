/// A JSON object text that is put together member by member.
///
/// Parts that are JSON already go in verbatim, so that what a device sent reaches a handler as it was.
struct JSONText {
    /// The text so far.
    private(set) var bytes: [UInt8] = [UInt8(ascii: "{")]

    /// An object without members, with room for this many bytes.
    init(capacity: Int) {
        bytes.reserveCapacity(capacity)
    }

    /// Adds a member with a string; nil is written as null.
    mutating func member(_ name: StaticString, _ value: String?) {
        begin(name)
        guard let value else { return append("null") }
        appendString(value)
    }

    /// Adds a member with a number.
    mutating func member(_ name: StaticString, _ value: Int) {
        begin(name)
        bytes.append(contentsOf: String(value).utf8)
    }

    /// Adds a member whose value is JSON already; nil is written as null.
    ///
    /// Line ends become spaces: in valid JSON they stand between tokens only, so the value stays the same, and the whole
    /// text stays on one line.
    mutating func member(_ name: StaticString, json value: [UInt8]?) {
        begin(name)
        guard let value else { return append("null") }
        bytes.append(contentsOf: value.lazy.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 })
    }

    /// The whole object.
    consuming func finish() -> [UInt8] {
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    private mutating func begin(_ name: StaticString) {
        if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
        bytes.append(UInt8(ascii: "\""))
        append(name)
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
    }

    private mutating func append(_ text: StaticString) {
        text.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    /// Writes a string literal: quotes, backslashes and control characters escaped (RFC 8259 §7), also the two
    /// separators that some line readers take for a line's end.
    private mutating func appendString(_ value: String) {
        bytes.append(UInt8(ascii: "\""))
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\"": append("\\\"")
            case "\\": append("\\\\")
            case "\n": append("\\n")
            case "\r": append("\\r")
            case "\t": append("\\t")
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{2028}", "\u{2029}":
                let digits = String(scalar.value, radix: 16)
                append("\\u")
                bytes.append(contentsOf: repeatElement(UInt8(ascii: "0"), count: 4 - digits.utf8.count))
                bytes.append(contentsOf: digits.utf8)
            default: UTF8.encode(scalar).map { bytes.append(contentsOf: $0) } ?? ()
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
