import NIOCore

/// A stanza encoded once, with fixed-width holes for the parts that vary.
struct StanzaTemplate {
    /// The content of a hole; a raw value marks it in the JSON text, where control characters cannot occur.
    enum Field: UInt8 {
        /// The message's number.
        case sequence = 1
        /// The device's number.
        case device
        /// 0, or 1 in a copy with conflicting content.
        case variant
        /// The number in the message's id.
        case id

        /// The number of its decimal digits.
        var width: Int {
            switch self {
            case .sequence, .id: 12
            case .device: 8
            case .variant: 1
            }
        }
    }

    private var bytes: [UInt8]
    private var holes: [(offset: Int, field: Field)] = []

    /// Takes a whole stanza in which each hole is filled with its field's marker.
    init(_ stanza: [UInt8]) {
        bytes = stanza
        var offset = 0
        while offset < bytes.count {
            if let field = Field(rawValue: bytes[offset]) {
                holes.append((offset, field))
                offset += field.width
            } else {
                offset += 1
            }
        }
    }

    static func hole(_ field: Field) -> String {
        String(repeating: Character(Unicode.Scalar(field.rawValue)), count: field.width)
    }

    func append(sequence: Int, id: Int, device: Int, variant: Int, to output: inout ByteBuffer) {
        output.writeWithUnsafeMutableBytes(minimumWritableBytes: bytes.count) { target in
            bytes.withUnsafeBytes { target.copyMemory(from: $0) }
            for hole in holes {
                let value =
                    switch hole.field {
                    case .sequence: sequence
                    case .id: id
                    case .device: device
                    case .variant: variant
                    }
                Decimal.write(value, width: hole.field.width, into: target, at: hole.offset)
            }
            return bytes.count
        }
    }
}

/// Numbers in decimal digits, in place.
package enum Decimal {
    /// Writes the last `width` digits of a number.
    package static func write(_ value: Int, width: Int, into target: UnsafeMutableRawBufferPointer, at offset: Int) {
        var rest = value.magnitude
        var position = offset + width - 1
        while position >= offset {
            target[position] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
            position -= 1
        }
    }

    /// Parses up to 18 digits; nil for anything else.
    package static func read(_ digits: UnsafeBufferPointer<UInt8>) -> Int? {
        guard !digits.isEmpty, digits.count <= 18 else { return nil }
        var value = 0
        for byte in digits {
            let digit = byte &- UInt8(ascii: "0")
            guard digit <= 9 else { return nil }
            value = value * 10 + Int(digit)
        }
        return value
    }

    static func text(_ value: Int, width: Int) -> String {
        var bytes = [UInt8](repeating: 0, count: width)
        bytes.withUnsafeMutableBytes { write(value, width: width, into: $0, at: 0) }
        return String(decoding: bytes, as: UTF8.self)
    }
}
