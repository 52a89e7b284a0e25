/// Masks what looks like a registration token in a stanza that could not be read as a message.
///
/// The string after a member `from`, in JSON or in JSON that XML has escaped. By the best effort only: such a stanza is
/// malformed by definition, so nobody can tell for certain where its token stands.
package enum StanzaMask {
    /// The stanza with `(masked)` for each such string.
    package static func mask(_ stanza: [UInt8]) -> [UInt8] {
        var masked: [UInt8] = []
        masked.reserveCapacity(stanza.count)
        var index = 0
        while index < stanza.count {
            guard let value = tokenStart(stanza, at: index) else {
                masked.append(stanza[index])
                index += 1
                continue
            }
            masked += stanza[index..<value]
            masked += "(masked)".utf8
            index = stringEnd(stanza, from: value)
        }
        return masked
    }

    private static let quotes: [[UInt8]] = ["\"", "&quot;", "&#34;", "&#x22;", "&#X22;"].map { Array($0.utf8) }

    private static func quote(_ bytes: [UInt8], at index: Int) -> Int? {
        quotes.first { bytes[index...].starts(with: $0) }?.count
    }

    /// Where the string of a member `from` begins whose name's quote stands at `index`.
    private static func tokenStart(_ bytes: [UInt8], at index: Int) -> Int? {
        guard bytes[index] == UInt8(ascii: "\"") || bytes[index] == UInt8(ascii: "&"),
            let first = quote(bytes, at: index)
        else { return nil }
        var place = index + first
        guard bytes[place...].starts(with: "from".utf8) else { return nil }
        place += 4
        guard place < bytes.count, let second = quote(bytes, at: place) else { return nil }
        place = skipSpaces(bytes, from: place + second)
        guard place < bytes.count, bytes[place] == UInt8(ascii: ":") else { return nil }
        place = skipSpaces(bytes, from: place + 1)
        guard place < bytes.count, let third = quote(bytes, at: place) else { return nil }
        return place + third
    }

    private static func skipSpaces(_ bytes: [UInt8], from start: Int) -> Int {
        var place = start
        while place < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[place]) { place += 1 }
        return place
    }

    /// Where a string ends: at its closing quote, or with the stanza.
    private static func stringEnd(_ bytes: [UInt8], from start: Int) -> Int {
        var place = start
        while place < bytes.count {
            if bytes[place] == UInt8(ascii: "\\") {
                place += 1
                place += place < bytes.count ? quote(bytes, at: place) ?? 1 : 0
            } else if quote(bytes, at: place) != nil {
                return place
            } else {
                place += 1
            }
        }
        return bytes.count
    }
}
