import Foundation

/// Finds duplicate members in the objects of a JSON text.
///
/// RFC 8259 leaves open which of them counts (section 4): a proxy or a log may read another one than the console.
enum DuplicateMembers {
    /// The first duplicate name, as spelt the second time; nil if there is none.
    ///
    /// Names are compared after decoding their escapes.
    ///
    /// - Parameter json: A JSON text; the result for anything else is undefined.
    /// - Returns: The name.
    static func first(in json: [UInt8]) -> String? {
        /// The names of the enclosing objects, innermost last; nil for an array.
        var around: [Set<[UInt8]>?] = []
        /// Whether a string that begins here is a name: after `{`, or after a comma in an object.
        var isName = false
        var place = 0
        while place < json.count {
            switch json[place] {
            case UInt8(ascii: "{"):
                around.append([])
                isName = true
            case UInt8(ascii: "["):
                around.append(nil)
                isName = false
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                _ = around.popLast()
                isName = false
            case UInt8(ascii: ","): isName = around.last.map { $0 != nil } ?? false
            case UInt8(ascii: "\""):
                let end = stringEnd(json, from: place)
                if isName, let last = around.indices.last {
                    let name = meaning(of: json[place..<end])
                    guard around[last]?.insert(Array(name.utf8)).inserted != false else { return name }
                }
                isName = false
                place = end - 1
            default: break
            }
            place += 1
        }
        return nil
    }

    /// The index after a string's closing quote, or the text's end.
    private static func stringEnd(_ json: [UInt8], from start: Int) -> Int {
        var place = start + 1
        while place < json.count, json[place] != UInt8(ascii: "\"") {
            place += json[place] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(place + 1, json.count)
    }

    private static func meaning(of literal: ArraySlice<UInt8>) -> String {
        let plain = String(decoding: literal.dropFirst().dropLast(), as: UTF8.self)
        guard literal.contains(UInt8(ascii: "\\")) else { return plain }
        return (try? JSONDecoder().decode(String.self, from: Data(literal))) ?? plain
    }
}
