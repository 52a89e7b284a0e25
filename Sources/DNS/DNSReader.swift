/// Reads the parts of a message (RFC 1035 section 4) with bounds checks at every step.
struct DNSReader {
    /// The maximum length of a name in bytes, with length bytes and root (RFC 1035 section 2.3.4).
    static let nameLimit = 255

    private let bytes: ArraySlice<UInt8>
    /// The index of the next byte in the message.
    private(set) var position = 0

    init(_ message: ArraySlice<UInt8>) { bytes = message }

    private func byte(at index: Int) throws(DNSError) -> UInt8 {
        guard index >= 0, index < bytes.count else { throw .malformed }
        return bytes[bytes.startIndex + index]
    }

    mutating func number() throws(DNSError) -> UInt16 {
        let value = UInt16(try byte(at: position)) << 8 | UInt16(try byte(at: position + 1))
        position += 2
        return value
    }

    mutating func skip(_ count: Int) throws(DNSError) {
        guard count >= 0, position + count <= bytes.count else { throw .malformed }
        position += count
    }

    /// Reads a name.
    ///
    /// A pointer must lead to before the name it stands in, so that every name ends.
    mutating func name() throws(DNSError) -> DNSName {
        var labels: [UInt8] = []
        var index = position
        var begin = position
        var end: Int?
        while true {
            let length = Int(try byte(at: index))
            switch length {
            case 0:
                labels.append(0)
                guard labels.count <= DNSReader.nameLimit else { throw .malformed }
                position = end ?? index + 1
                return DNSName(wire: labels)
            case 1...63:
                guard labels.count + length + 1 < DNSReader.nameLimit else { throw .malformed }
                labels.append(UInt8(length))
                for offset in 1...length { labels.append(DNSName.fold(try byte(at: index + offset))) }
                index += length + 1
            case 0xc0...0xff:
                let target = (length & 0x3f) << 8 | Int(try byte(at: index + 1))
                guard target < begin else { throw .malformed }
                end = end ?? index + 2
                index = target
                begin = target
            default:
                // 01 and 10 were never assigned (RFC 6891 section 5).
                throw .malformed
            }
        }
    }
}

/// A domain name in wire form: labels with their lengths, in lower case.
package struct DNSName: Sendable, Equatable {
    /// The bytes, ending with the root's zero.
    let wire: [UInt8]

    init(wire: [UInt8]) { self.wire = wire }

    /// Parses a host name in ASCII; nil if it breaks the grammar or the limits of RFC 1035.
    package init?(_ text: String) {
        var wire: [UInt8] = []
        let text = text.hasSuffix(".") ? text.dropLast() : text[...]
        for label in text.split(separator: ".", omittingEmptySubsequences: false) {
            guard (1...63).contains(label.utf8.count), label.utf8.allSatisfy(DNSName.isPlain) else { return nil }
            wire.append(UInt8(label.utf8.count))
            wire += label.utf8.map(DNSName.fold)
        }
        wire.append(0)
        guard wire.count <= DNSReader.nameLimit else { return nil }
        self.wire = wire
    }

    /// Whether the name is the root, which means "no such service" (RFC 2782).
    var isRoot: Bool { wire == [0] }

    /// The name without a final dot; nil for the root, and if a label holds a character not allowed in a host name.
    var text: String? {
        var text: [UInt8] = []
        var index = 0
        while index < wire.count, wire[index] != 0 {
            let label = wire[(index + 1)..<(index + 1 + Int(wire[index]))]
            guard label.allSatisfy(DNSName.isPlain) else { return nil }
            if !text.isEmpty { text.append(UInt8(ascii: ".")) }
            text += label
            index += label.count + 1
        }
        return text.isEmpty ? nil : String(decoding: text, as: UTF8.self)
    }

    static func fold(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }

    /// Letters, digits, the hyphen, and the underscore of service names.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch fold(byte) {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "-"), UInt8(ascii: "_"): true
        default: false
        }
    }
}
