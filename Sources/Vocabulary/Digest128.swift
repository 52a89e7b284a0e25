/// 128 bits cut from a SHA-256 digest, as the tables hold them in a `uuid` column.
package struct Digest128: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The first 8 bytes, read big-endian.
    package var high: UInt64

    /// The last 8 bytes, read big-endian.
    package var low: UInt64

    /// The digest made of two big-endian halves.
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Equality of all bits; written out to be inlined where batches are sorted.
    @inlinable
    package static func == (lhs: Digest128, rhs: Digest128) -> Bool {
        lhs.high == rhs.high && lhs.low == rhs.low
    }

    /// Byte order, which is also the order of PostgreSQL's `uuid`.
    @inlinable
    package static func < (lhs: Digest128, rhs: Digest128) -> Bool {
        (lhs.high, lhs.low) < (rhs.high, rhs.low)
    }

    /// The UUID text form, lower case: `8-4-4-4-12` hex digits.
    package var description: String {
        var text: [UInt8] = []
        text.reserveCapacity(36)
        let digits = Array("0123456789abcdef".utf8)
        for index in 0..<16 {
            if index == 4 || index == 6 || index == 8 || index == 10 { text.append(UInt8(ascii: "-")) }
            let half = index < 8 ? high : low
            let byte = UInt8(truncatingIfNeeded: half >> UInt64(56 - 8 * (index % 8)))
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }
}
