import Vocabulary

/// Finds duplicate members in the objects of a JSON text.
///
/// RFC 8259 leaves open which of them counts (section 4): a proxy or a log may read another one than the console.
enum DuplicateMembers {
    /// The first duplicate name, as spelt the second time; nil if there is none.
    ///
    /// Names are compared after decoding their escapes.
    static func first(in json: [UInt8]) -> String? {
        json.withUnsafeBufferPointer { json in
            /// The names of the enclosing objects, innermost last; empty for an array.
            var around: [Set<[UInt8]>] = []
            var tokens = JSONTokens(json)
            while let token = tokens.next() {
                switch token.kind {
                case .object, .array: around.append([])
                case .end: _ = around.popLast()
                case .name:
                    let name = JSONLiteral.text(of: tokens.body(of: token))
                    guard let last = around.indices.last, !around[last].insert(name).inserted else { continue }
                    return String(decoding: name, as: UTF8.self)
                case .string, .other, .comma, .colon: break
                }
            }
            return nil
        }
    }
}
