import Logging

/// Writes one JSON object on one line (RFC 8259).
struct JSONLineWriter {
    private var bytes: [UInt8] = []

    init() {
        // What most lines take.
        bytes.reserveCapacity(512)
        bytes.append(UInt8(ascii: "{"))
    }

    /// Adds a member; names are ours and never repeat.
    mutating func member(_ name: String, _ value: Logger.MetadataValue) {
        if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
        bytes.append(jsonString: name)
        bytes.append(UInt8(ascii: ":"))
        append(value)
    }

    /// The object with its end and a newline.
    consuming func finish() -> [UInt8] {
        bytes.append(UInt8(ascii: "}"))
        bytes.append(UInt8(ascii: "\n"))
        return bytes
    }

    private mutating func append(_ value: Logger.MetadataValue) {
        switch value {
        case .string(let text): bytes.append(jsonString: LogLine.cut(text))
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
            case .string(let text): bytes.append(jsonString: LogLine.cut(text))
            case .int(let number): raw(String(number))
            case .double(let number): raw(number.isFinite ? String(number) : "null")
            case .bool(let flag): raw(String(flag))
            }
        case let value as Int: raw(String(value))
        case let value as Bool: raw(String(value))
        default: bytes.append(jsonString: LogLine.cut(value.description))
        }
    }

    private mutating func raw(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }
}
