import Logging

/// Writes one JSON object on one line (RFC 8259).
struct JSONLineWriter {
    private var bytes: [UInt8] = [UInt8(ascii: "{")]

    /// Adds a member; names are ours and never repeat.
    mutating func member(_ name: String, _ value: Logger.MetadataValue) {
        if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
        string(name)
        bytes.append(UInt8(ascii: ":"))
        append(value)
    }

    /// The object with its end and a newline.
    func finish() -> [UInt8] {
        bytes + [UInt8(ascii: "}"), UInt8(ascii: "\n")]
    }

    private mutating func append(_ value: Logger.MetadataValue) {
        switch value {
        case .string(let text): string(LogLine.cut(text))
        case .stringConvertible(let value): append(convertible: value)
        case .array(let values):
            bytes.append(UInt8(ascii: "["))
            for (index, value) in values.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                append(value)
            }
            bytes.append(UInt8(ascii: "]"))
        case .dictionary(let members):
            var inner = JSONLineWriter()
            for (name, value) in members.sorted(by: { $0.key < $1.key }) { inner.member(name, value) }
            bytes.append(contentsOf: inner.finish().dropLast())
        }
    }

    private mutating func append(convertible value: any CustomStringConvertible) {
        switch value {
        case let value as LogValue:
            switch value {
            case .string(let text): string(LogLine.cut(text))
            case .int(let number): raw(String(number))
            case .double(let number): raw(number.isFinite ? String(number) : "null")
            case .bool(let flag): raw(String(flag))
            }
        case let value as Int: raw(String(value))
        case let value as Bool: raw(String(value))
        default: string(LogLine.cut(value.description))
        }
    }

    private mutating func raw(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    private mutating func string(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": raw("\\\"")
            case "\\": raw("\\\\")
            case "\n": raw("\\n")
            case "\r": raw("\\r")
            case "\t": raw("\\t")
            // C0, DEL and C1, and the two separators that some readers take for a line's end.
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{2028}", "\u{2029}":
                let digits = String(scalar.value, radix: 16)
                raw("\\u" + String(repeating: "0", count: 4 - digits.count) + digits)
            default: bytes.append(contentsOf: UTF8.encode(scalar).map(Array.init) ?? [])
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
