/// Base64 with padding (RFC 4648 §4), canonical only.
package enum Base64 {
    package static func encode(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let second = start + 1 < bytes.count ? bytes[start + 1] : 0
            let third = start + 2 < bytes.count ? bytes[start + 2] : 0
            let group = UInt32(bytes[start]) << 16 | UInt32(second) << 8 | UInt32(third)
            result.append(digit(group >> 18))
            result.append(digit(group >> 12))
            result.append(start + 1 < bytes.count ? digit(group >> 6) : UInt8(ascii: "="))
            result.append(start + 2 < bytes.count ? digit(group) : UInt8(ascii: "="))
        }
        return result
    }

    package static func text(_ bytes: [UInt8]) -> String { String(decoding: encode(bytes), as: UTF8.self) }

    /// Decodes padded text; nil for anything else, including unused bits that are not zero.
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var result: [UInt8] = []
        var group: UInt32 = 0
        var digits = 0
        var padding = 0
        for byte in text {
            if byte == UInt8(ascii: "=") {
                padding += 1
                guard padding <= 2 else { return nil }
                continue
            }
            guard padding == 0, let value = value(byte) else { return nil }
            group = group << 6 | UInt32(value)
            digits += 1
            guard digits == 4 else { continue }
            result.append(UInt8(truncatingIfNeeded: group >> 16))
            result.append(UInt8(truncatingIfNeeded: group >> 8))
            result.append(UInt8(truncatingIfNeeded: group))
            (group, digits) = (0, 0)
        }
        switch (digits, padding) {
        case (0, 0): break
        case (2, 2) where group & 15 == 0: result.append(UInt8(truncatingIfNeeded: group >> 4))
        case (3, 1) where group & 3 == 0:
            result.append(UInt8(truncatingIfNeeded: group >> 10))
            result.append(UInt8(truncatingIfNeeded: group >> 2))
        default: return nil
        }
        return result
    }

    /// The digit of the low 6 bits.
    private static func digit(_ bits: UInt32) -> UInt8 {
        switch UInt8(truncatingIfNeeded: bits & 63) {
        case let bits where bits < 26: bits + UInt8(ascii: "A")
        case let bits where bits < 52: bits - 26 + UInt8(ascii: "a")
        case let bits where bits < 62: bits - 52 + UInt8(ascii: "0")
        case 62: UInt8(ascii: "+")
        default: UInt8(ascii: "/")
        }
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): digit - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
