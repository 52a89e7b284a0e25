import Telemetry

/// Writes a JSON object member by member.
///
/// Values that are JSON already are copied verbatim, so that handlers see what the device sent.
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
        bytes.append(jsonString: value)
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
}
