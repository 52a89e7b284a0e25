import CBytes

/// A byte-by-byte check of non-ASCII characters: UTF-8 (RFC 3629) that XML 1.0 allows.
struct UTF8Check {
    /// The bytes of the character that has begun, and how many there are.
    private var bytes: (UInt8, UInt8, UInt8, UInt8) = (0, 0, 0, 0)
    private var count = 0

    var isUnfinished: Bool { count > 0 }

    static func accepts(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        var check = UTF8Check()
        for byte in text where byte >= 0x80 || check.isUnfinished {
            guard check.take(byte) else { return false }
        }
        return !check.isUnfinished
    }

    /// Checks a non-ASCII byte, or any byte while a character is unfinished.
    mutating func take(_ byte: UInt8) -> Bool {
        let taken = count + 1
        let length = withUnsafeMutableBytes(of: &bytes) { bytes in
            bytes[taken - 1] = byte
            return upstream_utf8_length(bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), taken)
        }
        count = length < 0 ? taken : 0
        return length != 0 && !(length == 3 && Self.isNoncharacter(bytes.0, bytes.1, bytes.2))
    }

    /// Whether a character of three bytes is U+FFFE or U+FFFF.
    static func isNoncharacter(_ first: UInt8, _ second: UInt8, _ third: UInt8) -> Bool {
        first == 0xEF && second == 0xBF && third >= 0xBE
    }
}

/// A byte-by-byte check of a reference, from after its `&` to its `;`.
struct ReferenceCheck {
    enum Outcome {
        case more, complete
        case failed(XMLStreamError.Code)
    }

    private enum Form { case start, entity, number, decimal, hexadecimal }

    private var form = Form.start
    /// The name's bytes, the first one highest; more than eight are not a known name.
    private var name: UInt64 = 0
    private var nameBytes = 0
    /// The number so far; stays out of range once it is.
    private var value: UInt32 = 0
    private var hasDigits = false

    private static let known: Set<UInt64> = Set(
        ["lt", "gt", "amp", "quot", "apos"].map { $0.utf8.reduce(0) { $0 << 8 | UInt64($1) } }
    )

    mutating func take(_ byte: UInt8) -> Outcome {
        switch (form, byte) {
        case (.start, UInt8(ascii: "#")): form = .number
        case (.number, UInt8(ascii: "x")): form = .hexadecimal
        case (.entity, UInt8(ascii: ";")):
            return nameBytes <= 8 && Self.known.contains(name) ? .complete : .failed(.entity)
        case (.decimal, UInt8(ascii: ";")), (.hexadecimal, UInt8(ascii: ";")):
            return hasDigits && isCharacter ? .complete : .failed(.notWellFormed)
        case (.start, _) where StanzaSkipper.beginsName(byte), (.entity, _) where StanzaSkipper.continuesName(byte):
            form = .entity
            name = name << 8 | UInt64(byte)
            nameBytes += 1
        case (.number, UInt8(ascii: "0")...UInt8(ascii: "9")), (.decimal, UInt8(ascii: "0")...UInt8(ascii: "9")):
            form = .decimal
            add(UInt32(byte - UInt8(ascii: "0")), base: 10)
        case (.hexadecimal, UInt8(ascii: "0")...UInt8(ascii: "9")): add(UInt32(byte - UInt8(ascii: "0")), base: 16)
        case (.hexadecimal, UInt8(ascii: "a")...UInt8(ascii: "f")): add(UInt32(byte - UInt8(ascii: "a") + 10), base: 16)
        case (.hexadecimal, UInt8(ascii: "A")...UInt8(ascii: "F")): add(UInt32(byte - UInt8(ascii: "A") + 10), base: 16)
        default: return .failed(.notWellFormed)
        }
        return .more
    }

    private mutating func add(_ digit: UInt32, base: UInt32) {
        hasDigits = true
        value = min(value * base + digit, 0x11_0000)
    }

    /// Whether XML 1.0 allows the character of this number.
    private var isCharacter: Bool {
        switch value {
        case 0x9, 0xA, 0xD, 0x20...0xD7FF, 0xE000...0xFFFD, 0x1_0000...0x10_FFFF: true
        default: false
        }
    }
}
