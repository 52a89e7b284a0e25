import Glibc
import Vocabulary

/// Lines under construction, byte by byte.
struct LineBuffer {
    private(set) var bytes: [UInt8] = []

    var count: Int { bytes.count }

    /// Returns the lines and starts anew with the same capacity.
    mutating func take() -> [UInt8] {
        let taken = bytes
        bytes = []
        bytes.reserveCapacity(taken.count + 4_096)
        return taken
    }

    mutating func append(_ text: StaticString) {
        text.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    mutating func append(_ byte: UInt8) { bytes.append(byte) }

    mutating func append(_ raw: UnsafeRawBufferPointer) { bytes.append(contentsOf: raw) }

    mutating func append(integer: Int64) { bytes.append(contentsOf: String(integer).utf8) }

    mutating func append(escaping text: UnsafeRawBufferPointer, _ table: JSONEscape) {
        table.append(text, to: &bytes)
    }

    /// Appends `8-4-4-4-12` hex digits.
    mutating func append(uuid: Digest128) { bytes.append(uuid: uuid) }

    /// Appends RFC 3339 in UTC with microseconds.
    mutating func append(time: Timestamp) { bytes.append(rfc3339: time) }
}

extension UnsafeRawBufferPointer {
    var hasLineEnd: Bool {
        guard let start = baseAddress else { return false }
        return memchr(start, 0x0A, count) != nil || memchr(start, 0x0D, count) != nil
    }
}
