package enum JSONLiteral {
    /// Writes a literal's text, which is never longer than the literal.
    ///
    /// The literal was accepted by ``JSONScanner`` and comes without its quotes. What UTF-8 can't hold gets a byte form
    /// of its own, so that two different literals never have the same bytes: half a surrogate pair becomes its three
    /// bytes of generalised UTF-8, and U+0000 becomes `C0 80`. Such a text is never stored, but hashed and compared.
    ///
    /// - Returns: The number of bytes written.
    package static func unescape(_ literal: UnsafeBufferPointer<UInt8>, into output: UnsafeMutablePointer<UInt8>) -> Int
    {
        guard let base = literal.baseAddress else { return 0 }
        var at = 0
        var written = 0
        while at < literal.count {
            let byte = base[at]
            guard byte == UInt8(ascii: "\\"), at + 1 < literal.count else {
                output[written] = byte
                written += 1
                at += 1
                continue
            }
            let letter = base[at + 1]
            at += 2
            guard letter == UInt8(ascii: "u") else {
                output[written] = control(letter)
                written += 1
                continue
            }
            guard literal.count - at >= 4, var scalar = unit(base + at) else { return written }
            at += 4
            if scalar & 0xfc00 == 0xd800, literal.count - at >= 6, base[at] == UInt8(ascii: "\\"),
                base[at + 1] == UInt8(ascii: "u"), let low = unit(base + at + 2), low & 0xfc00 == 0xdc00
            {
                scalar = 0x10000 + (scalar & 0x3ff) << 10 + (low & 0x3ff)
                at += 6
            }
            written += encode(scalar, into: output + written)
        }
        return written
    }

    /// The text of a literal's body; not for the hot path.
    package static func text(of literal: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        // Unescaping makes nothing longer.
        [UInt8](unsafeUninitializedCapacity: literal.count + 1) { storage, count in
            count = storage.baseAddress.map { unescape(literal, into: $0) } ?? 0
        }
    }

    /// The text of a part of a text, such as ``JSONMember/key`` and ``JSONMember/body``.
    package static func text(of body: ByteSpan, in text: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        self.text(of: UnsafeBufferPointer(rebasing: text[body.range]))
    }

    /// The value of four hex digits; nil if one is not a hex digit.
    static func unit(_ digits: UnsafePointer<UInt8>) -> UInt32? {
        var value: UInt32 = 0
        for offset in 0..<4 {
            guard let digit = Hex.value(digits[offset]) else { return nil }
            value = value << 4 | UInt32(digit)
        }
        return value
    }

    private static func control(_ letter: UInt8) -> UInt8 {
        switch letter {
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0c
        case UInt8(ascii: "n"): 0x0a
        case UInt8(ascii: "r"): 0x0d
        case UInt8(ascii: "t"): 0x09
        default: letter
        }
    }

    /// Writes a scalar or a lone surrogate in generalised UTF-8, and 0 as two bytes.
    private static func encode(_ scalar: UInt32, into output: UnsafeMutablePointer<UInt8>) -> Int {
        func tail(_ shift: UInt32) -> UInt8 { 0x80 | UInt8(truncatingIfNeeded: scalar >> shift) & 0x3f }
        switch scalar {
        case 1..<0x80:
            output[0] = UInt8(truncatingIfNeeded: scalar)
            return 1
        case 0, 0x80..<0x800:
            output[0] = 0xc0 | UInt8(truncatingIfNeeded: scalar >> 6)
            output[1] = tail(0)
            return 2
        case 0x800..<0x10000:
            output[0] = 0xe0 | UInt8(truncatingIfNeeded: scalar >> 12)
            output[1] = tail(6)
            output[2] = tail(0)
            return 3
        default:
            output[0] = 0xf0 | UInt8(truncatingIfNeeded: scalar >> 18)
            output[1] = tail(12)
            output[2] = tail(6)
            output[3] = tail(0)
            return 4
        }
    }
}
