import Foundation

/// The members of a JSON object, verbatim.
enum JSONMembers {
    /// Splits an object, one level deep.
    ///
    /// - Parameter object: A valid JSON object, whose names need no escapes.
    /// - Returns: The text of each value by its name.
    static func split(_ object: [UInt8]) -> [String: [UInt8]] {
        var members: [String: [UInt8]] = [:]
        var name: String?
        var start = object.startIndex
        var depth = 0
        var isInString = false
        var isEscaped = false
        for (index, byte) in object.enumerated() {
            if isInString {
                isInString = isEscaped || byte != UInt8(ascii: "\"")
                isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                if depth == 1 { start = index + 1 }
            case UInt8(ascii: ":") where depth == 1 && name == nil:
                name = text(Array(object[start..<index]))
                start = index + 1
            case UInt8(ascii: ",") where depth == 1, UInt8(ascii: "}") where depth == 1:
                if let name { members[name] = Array(object[start..<index]) }
                (name, start) = (nil, index + 1)
                if byte == UInt8(ascii: "}") { depth = 0 }
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            default: break
            }
        }
        return members
    }

    /// A value's text: a string's content, nil for null, else the JSON itself.
    static func text(_ value: [UInt8]) -> String? {
        let text = String(decoding: value, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        if text == "null" { return nil }
        guard text.hasPrefix("\"") else { return text }
        return (try? JSONDecoder().decode(String.self, from: Data(text.utf8))) ?? text
    }
}
