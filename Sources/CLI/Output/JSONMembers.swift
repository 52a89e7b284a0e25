import Vocabulary

/// The members of a JSON object, verbatim.
enum JSONMembers {
    /// Splits an object, one level deep.
    ///
    /// - Parameter object: A valid JSON object, whose names need no escapes.
    /// - Returns: The text of each value by its name.
    static func split(_ object: [UInt8]) -> [String: [UInt8]] {
        object.withUnsafeBufferPointer { object in
            var members: [String: [UInt8]] = [:]
            var tokens = JSONTokens(object)
            _ = tokens.next()
            while let name = tokens.nextName(), let value = tokens.nextValue() {
                members[String(decoding: tokens.body(of: name), as: UTF8.self)] = Array(object[value.range])
            }
            return members
        }
    }

    /// A value's text: a string's content, nil for null, else the JSON itself.
    static func text(_ value: [UInt8]) -> String? {
        value.withUnsafeBufferPointer { json in
            var tokens = JSONTokens(json)
            guard let token = tokens.next(), token.kind == .string else {
                let text = String(decoding: json, as: UTF8.self)
                return text == "null" ? nil : text
            }
            return String(decoding: JSONLiteral.text(of: tokens.body(of: token)), as: UTF8.self)
        }
    }
}
