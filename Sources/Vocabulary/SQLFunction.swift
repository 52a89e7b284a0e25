/// The name of a database function, quoted for use in a statement.
package struct SQLFunction: Sendable, Hashable, CustomStringConvertible {
    /// The quoted name: `"app"."take_order"`.
    package let quoted: String
    /// The name as configured.
    package let description: String

    /// Parses `function` or `schema.function` as PostgreSQL would, each part plain (folded to lower case) or in double
    /// quotes; nil for anything else, including arguments and spaces.
    package init?(_ text: String) {
        var parts: [[UInt8]] = []
        var rest = Array(text.utf8)[...]
        while true {
            guard let part = Self.identifier(&rest), (1...63).contains(part.count) else { return nil }
            parts.append(part)
            guard let next = rest.popFirst() else { break }
            guard next == UInt8(ascii: "."), parts.count < 2 else { return nil }
        }
        description = text
        quoted = parts.map { part in
            "\"" + String(decoding: part.flatMap { $0 == 0x22 ? [0x22, 0x22] : [$0] }, as: UTF8.self) + "\""
        }.joined(separator: ".")
    }

    /// Takes one identifier from the front, unquoted and folded.
    private static func identifier(_ text: inout ArraySlice<UInt8>) -> [UInt8]? {
        guard let first = text.first else { return nil }
        var part: [UInt8] = []
        if first == 0x22 {
            text.removeFirst()
            while let byte = text.popFirst() {
                if byte == 0x22 {
                    guard text.first == 0x22 else { return part }
                    text.removeFirst()
                } else if byte == 0 {
                    return nil
                }
                part.append(byte)
            }
            return nil
        }
        while let byte = text.first {
            switch byte {
            case 0x41...0x5A: part.append(byte + 32)
            case 0x61...0x7A, 0x5F: part.append(byte)
            case 0x30...0x39 where !part.isEmpty: part.append(byte)
            case 0x24 where !part.isEmpty: part.append(byte)
            default: return part
            }
            text.removeFirst()
        }
        return part
    }
}
