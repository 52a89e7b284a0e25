import Glibc
import Telemetry
import UpstreamKit
import Vocabulary

/// Lines that are put together from values, byte by byte, before they are written out.
struct LineBuffer {
    private(set) var bytes: [UInt8] = []
    // The day of the last time written, whose text is the same for many rows.
    private var dayNumber = Int64.min
    private var dayText: [UInt8] = []

    var count: Int { bytes.count }

    /// Gives the lines away and starts anew with the same room.
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

    mutating func append(escaping text: UnsafeRawBufferPointer, _ table: EscapeTable) {
        table.append(text, to: &bytes)
    }

    /// Appends `8-4-4-4-12` hex digits.
    mutating func append(uuid: Digest128) {
        var shift = 60
        var digits = 0
        for half in [uuid.high, uuid.low] {
            shift = 60
            while shift >= 0 {
                if digits == 8 || digits == 12 || digits == 16 || digits == 20 { bytes.append(UInt8(ascii: "-")) }
                let digit = UInt8(truncatingIfNeeded: half >> UInt64(shift)) & 15
                bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") - 10 + digit)
                shift -= 4
                digits += 1
            }
        }
    }

    /// Appends RFC 3339 in UTC with microseconds.
    mutating func append(time: Int64) {
        let inDay = TimeExpression.floorRemainder(time, TimeExpression.day)
        if time - inDay != dayNumber {
            dayNumber = time - inDay
            dayText = Array(TimeText.rfc3339(dayNumber).utf8.prefix { $0 != UInt8(ascii: "T") }) + [UInt8(ascii: "T")]
        }
        bytes.append(contentsOf: dayText)
        let seconds = inDay / 1_000_000
        append(digits: seconds / 3_600, 2)
        bytes.append(UInt8(ascii: ":"))
        append(digits: seconds / 60 % 60, 2)
        bytes.append(UInt8(ascii: ":"))
        append(digits: seconds % 60, 2)
        bytes.append(UInt8(ascii: "."))
        append(digits: inDay % 1_000_000, 6)
        bytes.append(UInt8(ascii: "Z"))
    }

    private mutating func append(digits number: Int64, _ width: Int) {
        var divisor: Int64 = 1
        for _ in 1..<width { divisor *= 10 }
        while divisor > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / divisor % 10))
            divisor /= 10
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Whether a line ends inside.
    var hasLineEnd: Bool {
        guard let start = baseAddress else { return false }
        return memchr(start, 0x0A, count) != nil || memchr(start, 0x0D, count) != nil
    }
}
