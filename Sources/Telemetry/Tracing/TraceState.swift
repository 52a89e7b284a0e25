import Vocabulary

/// The rules of `tracestate`, which other tracing systems write and we pass on unchanged
/// (https://www.w3.org/TR/trace-context-2/, section 3.3).
package enum TraceState {
    /// The most bytes passed on (section 3.3.1.5 asks for at least 512).
    package static let byteLimit = 512
    /// The most members of the list (section 3.3.1.1).
    private static let memberLimit = 32
    /// The most bytes of a key or value (sections 3.3.1.3.1 and 3.3.1.3.2).
    private static let partLimit = 256

    /// The text if it is a valid list without repeated keys, which is printable ASCII; else nil.
    package static func valid(_ text: [UInt8]) -> String? {
        guard text.count <= byteLimit else { return nil }
        var keys: Set<ArraySlice<UInt8>> = []
        var count = 0
        for part in text.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            let member = trimmed(part)
            guard !member.isEmpty else { continue }
            count += 1
            guard count <= memberLimit, let equals = member.firstIndex(of: UInt8(ascii: "=")),
                isKey(member[..<equals]), isValue(member[member.index(after: equals)...]),
                keys.insert(member[..<equals]).inserted
            else { return nil }
        }
        return count == 0 ? nil : String(decoding: text, as: UTF8.self)
    }

    /// Without the optional white space of section 3.3.1.2.
    private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
        guard let last = text.lastIndex(where: { !isSpace($0) }) else { return [] }
        return text[...last].drop(while: isSpace)
    }

    /// A letter or digit, then those and `_-*/@`.
    private static func isKey(_ key: ArraySlice<UInt8>) -> Bool {
        guard key.count <= partLimit, let first = key.first, first.isLowercaseOrDigit else { return false }
        return key.allSatisfy { $0.isLowercaseOrDigit || "_-*/@".utf8.contains($0) }
    }

    /// Printable ASCII except comma and equals sign, without a final space.
    private static func isValue(_ value: ArraySlice<UInt8>) -> Bool {
        guard value.count <= partLimit, let last = value.last, last != 0x20 else { return false }
        return value.allSatisfy { (0x20...0x7E).contains($0) && $0 != 0x2C && $0 != 0x3D }
    }
}
