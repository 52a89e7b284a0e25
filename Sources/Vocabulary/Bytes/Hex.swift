/// Hexadecimal digits.
package enum Hex {
    @inlinable
    static var digits: StaticString { "0123456789abcdef" }

    /// The lower-case digit of a number's low 4 bits.
    @inlinable
    package static func digit(_ number: UInt8) -> UInt8 { digits.utf8Start[Int(number & 15)] }

    /// The upper-case digit of a number's low 4 bits.
    @inlinable
    package static func upperDigit(_ number: UInt8) -> UInt8 {
        let number = number & 15
        return number < 10 ? number + 0x30 : number + 0x37
    }

    /// The value of a digit in either case; nil for any other byte.
    @inlinable
    package static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case 0x30...0x39: digit - 0x30
        case 0x41...0x46: digit - 0x37
        case 0x61...0x66: digit - 0x57
        default: nil
        }
    }

    /// The bytes in lower-case digits, two for each.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.underestimatedCount * 2)
        for byte in bytes {
            text.append(digit(byte >> 4))
            text.append(digit(byte))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The number in lower-case digits, with leading zeros to its full width.
    package static func encode(_ number: some FixedWidthInteger & UnsignedInteger) -> String {
        String(unsafeUninitializedCapacity: number.bitWidth / 4) { text in
            write(number, to: text, at: 0)
            return number.bitWidth / 4
        }
    }

    /// Writes the digits of `encode`, one for each 4 bits, into an uninitialised buffer with room for them.
    @inlinable
    package static func write<Number: FixedWidthInteger & UnsignedInteger>(
        _ number: Number,
        to text: UnsafeMutableBufferPointer<UInt8>,
        at place: Int
    ) {
        var rest = number
        var place = place + Number.bitWidth / 4
        for _ in 0..<Number.bitWidth / 4 {
            place -= 1
            text.initializeElement(at: place, to: digit(UInt8(truncatingIfNeeded: rest)))
            rest >>= 4
        }
    }
}
