/// The first 128 bits of a SHA-256 digest, stored in `uuid` columns.
package struct Digest128: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The first 8 bytes, read big-endian.
    package var high: UInt64
    /// The last 8 bytes, read big-endian.
    package var low: UInt64

    @inlinable
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Parses the UUID text form in either case; nil for anything else.
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

    /// All digests whose UUID text form has this prefix; nil if it is not such a prefix or shorter than 6 characters.
    package static func range(ofPrefix text: String) -> ClosedRange<Digest128>? {
        let prefix = Array(text.utf8)
        guard (6..<length).contains(prefix.count) else { return nil }
        func completed(with digit: Unicode.Scalar) -> Digest128? {
            let rest = (prefix.count..<length).map { isDash($0) ? UInt8(ascii: "-") : UInt8(ascii: digit) }
            return Digest128(uuid: prefix + rest)
        }
        guard let lowest = completed(with: "0"), let highest = completed(with: "f") else { return nil }
        return lowest...highest
    }

    private static func isDash(_ position: Int) -> Bool {
        position == 8 || position == 13 || position == 18 || position == 23
    }

    /// Written out so that it is inlined where batches are sorted.
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
        String(unsafeUninitializedCapacity: Digest128.length) { text in
            write(to: text)
            return Digest128.length
        }
    }

    fileprivate static var length: Int { 36 }

    /// Writes the UUID text form at the start of an uninitialised buffer with room for it.
    fileprivate func write(to text: UnsafeMutableBufferPointer<UInt8>) {
        Hex.write(UInt32(truncatingIfNeeded: high >> 32), to: text, at: 0)
        Hex.write(UInt16(truncatingIfNeeded: high >> 16), to: text, at: 9)
        Hex.write(UInt16(truncatingIfNeeded: high), to: text, at: 14)
        Hex.write(UInt16(truncatingIfNeeded: low >> 48), to: text, at: 19)
        // The last group has 12 digits: 4 and 8.
        Hex.write(UInt16(truncatingIfNeeded: low >> 32), to: text, at: 24)
        Hex.write(UInt32(truncatingIfNeeded: low), to: text, at: 28)
        text.initializeElement(at: 8, to: UInt8(ascii: "-"))
        text.initializeElement(at: 13, to: UInt8(ascii: "-"))
        text.initializeElement(at: 18, to: UInt8(ascii: "-"))
        text.initializeElement(at: 23, to: UInt8(ascii: "-"))
    }
}

extension [UInt8] {
    /// Appends the UUID text form, lower case: `8-4-4-4-12` hex digits.
    package mutating func append(uuid digest: Digest128) {
        // Built in a buffer first: 36 appends would check for room 36 times.
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Digest128.length) { text in
            digest.write(to: text)
            append(contentsOf: text)
        }
    }
}
