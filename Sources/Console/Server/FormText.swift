/// Names and values as addresses and forms hold them: `+` for a space, the rest percent-encoded (URL Standard,
/// application/x-www-form-urlencoded), read strictly.
enum FormText {
    static func pairs(_ text: String) throws(Problem) -> [(name: String, value: String)] {
        try text.split(separator: "&").map { pair throws(Problem) in
            let equals = pair.firstIndex(of: "=") ?? pair.endIndex
            guard let name = decode(pair[..<equals], plusIsSpace: true) else { throw unreadable("a parameter's name") }
            guard equals < pair.endIndex else { return (name, "") }
            guard let value = decode(pair[pair.index(after: equals)...], plusIsSpace: true) else {
                throw unreadable("'\(name)'")
            }
            return (name, value)
        }
    }

    /// Text whose `%XX` are replaced; nil where it is not UTF-8, or holds U+0000, which no text in the database does.
    static func decode(_ text: Substring, plusIsSpace: Bool = false) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else {
                    return nil
                }
                bytes.append(high << 4 | low)
            default: bytes.append(byte)
            }
        }
        return bytes.contains(0) ? nil : String(validating: bytes, as: UTF8.self)
    }

    private static func unreadable(_ name: String) -> Problem {
        .badRequest("\(name) is not percent-encoded UTF-8 without U+0000")
    }

    private static func digit(_ byte: UInt8) -> UInt8? { Character(Unicode.Scalar(byte)).hexDigitValue.map(UInt8.init) }
}
