/// Writes JSON text (RFC 8259) value by value, on one line.
///
/// Adds commas; the caller closes what it opens and writes each name once. Parts that are JSON already are copied.
package struct JSONWriter: Sendable {
    /// The text so far, UTF-8.
    package private(set) var bytes: [UInt8] = []

    private let strings: JSONEscape

    /// An empty writer, which can also escape strings for a terminal.
    package init(capacity: Int = 256, isForTerminal: Bool = false) {
        strings = isForTerminal ? .stringForTerminal : .string
        bytes.reserveCapacity(capacity)
    }

    package mutating func beginObject() {
        separate()
        bytes.append(UInt8(ascii: "{"))
    }

    package mutating func endObject() { bytes.append(UInt8(ascii: "}")) }

    package mutating func beginArray() {
        separate()
        bytes.append(UInt8(ascii: "["))
    }

    package mutating func endArray() { bytes.append(UInt8(ascii: "]")) }

    /// Writes a member's name that needs no escape; its value comes next.
    package mutating func name(_ name: StaticString) {
        quoted { bytes in name.withUTF8Buffer { bytes.append(contentsOf: $0) } }
        bytes.append(UInt8(ascii: ":"))
    }

    /// Writes a member's name that may need escapes; its value comes next.
    package mutating func name(escaping name: String) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
    }

    /// Writes a member's name known to need no escape; its value comes next.
    package mutating func name(plain name: String) {
        plain(name)
        bytes.append(UInt8(ascii: ":"))
    }

    /// Ends the line; the next value is a separate document.
    package mutating func endLine() { bytes.append(UInt8(ascii: "\n")) }

    package mutating func line(_ line: [UInt8]) { bytes.append(contentsOf: line) }

    /// Clears the text but keeps its memory.
    package mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

    package consuming func finish() -> [UInt8] { bytes }

    package mutating func string(_ text: String) {
        var text = text
        text.withUTF8 { string(utf8: UnsafeRawBufferPointer($0)) }
    }

    /// Writes a string known to need no escape.
    package mutating func plain(_ text: String) { quoted { $0.append(contentsOf: text.utf8) } }

    package mutating func string(utf8 text: UnsafeRawBufferPointer) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        strings.append(text, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes a time as RFC 3339.
    package mutating func time(_ time: Timestamp) { quoted { $0.append(rfc3339: time) } }

    package mutating func uuid(_ digest: Digest128) { quoted { $0.append(uuid: digest) } }

    @inline(__always)
    private mutating func quoted(_ write: (inout [UInt8]) -> Void) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        write(&bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    package mutating func integer(_ number: some BinaryInteger) {
        guard number >= 0, number.bitWidth <= 64 else { return raw(String(number)) }
        separate()
        // Without a `String`, since every log line and every exported row has some.
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var rest = UInt64(truncatingIfNeeded: number)
            var start = digits.count
            repeat {
                start -= 1
                digits.initializeElement(at: start, to: UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10))
                rest /= 10
            } while rest > 0
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: digits[start...]))
        }
    }

    /// Writes a number; null for NaN and infinity.
    package mutating func number(_ number: Double) { raw(number.isFinite ? String(number) : "null") }

    package mutating func bool(_ flag: Bool) { raw(flag ? "true" : "false") }

    package mutating func null() { raw("null") }

    /// Writes a JSON value as it is, except that line ends, which stand between tokens only, become spaces.
    package mutating func json(_ value: [UInt8]) {
        separate()
        guard !strings.isForTerminal else {
            return value.withUnsafeBytes { JSONEscape.jsonForTerminal.append($0, to: &bytes) }
        }
        bytes.append(contentsOf: value.lazy.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 })
    }

    private mutating func raw(_ text: String) {
        separate()
        bytes.append(contentsOf: text.utf8)
    }

    /// Writes a comma if a value or a member came before, as the last byte tells: no value ends in one of these.
    private mutating func separate() {
        switch bytes.last {
        case nil, UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: ":"), UInt8(ascii: "\n"): break
        default: bytes.append(UInt8(ascii: ","))
        }
    }
}

extension JSONWriter {
    /// Writes a member with a string, or null.
    package mutating func member(_ name: StaticString, _ value: String?) {
        self.name(name)
        if let value { string(value) } else { null() }
    }

    package mutating func member(_ name: StaticString, _ value: some BinaryInteger) {
        self.name(name)
        integer(value)
    }

    package mutating func member(_ name: StaticString, _ value: Timestamp) {
        self.name(name)
        time(value)
    }

    package mutating func member(_ name: StaticString, _ value: Digest128) {
        self.name(name)
        uuid(value)
    }

    /// Writes a member whose value is JSON already, or null.
    package mutating func member(_ name: StaticString, json value: [UInt8]?) {
        self.name(name)
        if let value { json(value) } else { null() }
    }
}
