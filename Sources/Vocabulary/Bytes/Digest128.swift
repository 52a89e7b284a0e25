/// 128 bits cut from a SHA-256 digest, as the tables hold them in a `uuid` column.
package struct Digest128: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The first 8 bytes, read big-endian.
    package var high: UInt64

    /// The last 8 bytes, read big-endian.
    package var low: UInt64

    /// The digest made of two big-endian halves.
    @inlinable
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The digest read from its UUID text form in either case; nil where the text is anything else.
    package init?(uuid text: some Sequence<UInt8>) {
        var halves: (high: UInt64, low: UInt64) = (0, 0)
        var position = 0
        for byte in text {
            defer { position += 1 }
            if Digest128.isDash(position) {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            guard position < 36, let digit = Hex.value(byte) else { return nil }
            // Positions 0...18 hold the first 16 digits and three dashes; the fourth dash and the rest follow.
            if position < 18 {
                halves.high = halves.high << 4 | UInt64(digit)
            } else {
                halves.low = halves.low << 4 | UInt64(digit)
            }
        }
        guard position == 36 else { return nil }
        self.init(high: halves.high, low: halves.low)
    }

    private static func isDash(_ position: Int) -> Bool {
        position == 8 || position == 13 || position == 18 || position == 23
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
        text.append(uuid: self)
        return String(decoding: text, as: UTF8.self)
    }
}

extension [UInt8] {
    /// Appends the UUID text form, lower case: `8-4-4-4-12` hex digits.
    package mutating func append(uuid digest: Digest128) {
        // Put together apart: 36 appends would check for room 36 times.
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 36) { text in
            var place = 0
            for index in 0..<16 {
                if index == 4 || index == 6 || index == 8 || index == 10 {
                    text.initializeElement(at: place, to: UInt8(ascii: "-"))
                    place += 1
                }
                let half = index < 8 ? digest.high : digest.low
                let byte = UInt8(truncatingIfNeeded: half >> UInt64(56 - 8 * (index % 8)))
                text.initializeElement(at: place, to: Hex.digit(byte >> 4))
                text.initializeElement(at: place + 1, to: Hex.digit(byte))
                place += 2
            }
            append(contentsOf: text)
        }
    }
}
