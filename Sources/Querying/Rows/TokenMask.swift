import CGlibc
import Glibc

/// Masks the registration token in the `data` of a CCS receipt.
///
/// A receipt's `from` is the service itself; the device's token is in the member `device_registration_id` ([XMPP server
/// reference](https://firebase.google.com/docs/cloud-messaging/xmpp-server-ref), "Message receipt"). It is masked at
/// any depth, in any type of message, and however the member's name is escaped. A string whose text has that member in
/// turn is masked whole.
package enum TokenMask {
    /// The member whose value is a token.
    package static let member = "device_registration_id"

    private static let name = Array(member.utf8)

    /// The device's own token is masked anywhere from this length on.
    ///
    /// Real ones have 100 characters and more; a short one would be found in any text.
    static let shortest = 32

    /// Masks each such value that is a string, an object or an array, and the device's own token, which apps send
    /// along.
    ///
    /// In a text that is not JSON some values may be masked; nothing else changes.
    package static func mask(_ json: [UInt8], of token: some StringProtocol) -> [UInt8] {
        json.withUnsafeBytes { json in Array(token.utf8).withUnsafeBytes { mask(json, of: $0) } } ?? json
    }

    /// Masks borrowed bytes; nil if there is nothing to mask.
    static func mask(_ json: UnsafeRawBufferPointer, of token: UnsafeRawBufferPointer) -> [UInt8]? {
        let masked = maskMembers(json)
        func withoutToken(_ json: UnsafeRawBufferPointer) -> [UInt8]? {
            guard token.count >= shortest, let start = token.baseAddress else { return nil }
            var (result, copied): ([UInt8], Int) = ([], 0)
            while copied < json.count, let place = json.baseAddress.map({ $0 + copied }),
                let found = memmem(place, json.count - copied, start, token.count)
            {
                let count = place.distance(to: UnsafeRawPointer(found))
                result += json[copied..<(copied + count)]
                result += TokenText.masked.utf8
                copied += count + token.count
            }
            return copied > 0 ? result + json[copied...] : nil
        }
        return masked.map { masked in masked.withUnsafeBytes(withoutToken) ?? masked } ?? withoutToken(json)
    }

    /// Masks only the members; nil if there are none.
    private static func maskMembers(_ json: UnsafeRawBufferPointer) -> [UInt8]? {
        guard mayHold(json) else { return nil }
        var masked: [UInt8] = []
        var (copied, place) = (0, 0)
        while place < json.count {
            guard json[place] == UInt8(ascii: "\"") else {
                place += 1
                continue
            }
            let start = place + 1
            place = stringEnd(json, from: start)
            var secret: Range<Int>?
            if place < json.count, isMember(json[start..<place]) {
                secret = valueStart(json, after: place + 1).map { $0..<valueEnd(json, from: $0) }
            } else if holdsMember(json[start..<place]) {
                secret = (start - 1)..<min(place + 1, json.count)
            }
            guard let secret else {
                place += 1
                continue
            }
            masked += json[copied..<secret.lowerBound]
            masked += "\"(masked)\"".utf8
            place = secret.upperBound
            copied = place
        }
        guard copied > 0 else { return nil }
        masked += json[copied...]
        return masked
    }

    /// Whether the name may occur, plain or escaped.
    private static func mayHold(_ json: UnsafeRawBufferPointer) -> Bool {
        guard let start = json.baseAddress else { return false }
        // Escaped, in JSON or in a URL.
        if memchr(start, 0x5C, json.count) != nil || memchr(start, 0x25, json.count) != nil { return true }
        // By its first underscore, which is rarer than any letter.
        var from = 0
        while let found = memchr(start + from, 0x5F, json.count - from) {
            let place = start.distance(to: UnsafeRawPointer(found))
            if place >= 6, json[(place - 6)...].starts(with: name) { return true }
            from = place + 1
        }
        return false
    }

    /// Whether a string's content, still escaped, is the member's name (RFC 8259, section 7).
    private static func isMember(_ text: Slice<UnsafeRawBufferPointer>) -> Bool {
        var rest = text[...]
        for expected in name {
            guard let byte = rest.popFirst() else { return false }
            guard byte == UInt8(ascii: "\\") else {
                if byte != expected { return false }
                continue
            }
            // Of the escapes only \uXXXX can mean a letter or an underscore.
            guard rest.popFirst() == UInt8(ascii: "u"), rest.count >= 4,
                UInt16(String(decoding: rest.prefix(4), as: UTF8.self), radix: 16) == UInt16(expected)
            else { return false }
            rest = rest.dropFirst(4)
        }
        return rest.isEmpty
    }

    /// Whether a string's content, still escaped, is text with the member in turn: JSON in a JSON string.
    private static func holdsMember(_ text: Slice<UnsafeRawBufferPointer>) -> Bool {
        guard text.count > name.count + 4, mayHold(UnsafeRawBufferPointer(rebasing: text)) else { return false }
        return JSONUnescape.content(text).map { TokenText.holdsMember($0) } ?? true
    }

    /// Where the value after a member's name begins, if it is to be masked.
    private static func valueStart(_ json: UnsafeRawBufferPointer, after end: Int) -> Int? {
        var place = skipSpaces(json, from: end)
        guard place < json.count, json[place] == UInt8(ascii: ":") else { return nil }
        place = skipSpaces(json, from: place + 1)
        return place < json.count && [0x22, 0x5B, 0x7B].contains(json[place]) ? place : nil
    }

    private static func skipSpaces(_ json: UnsafeRawBufferPointer, from start: Int) -> Int {
        var place = start
        while place < json.count, [0x20, 0x09, 0x0A, 0x0D].contains(json[place]) { place += 1 }
        return place
    }

    /// The place of a string's closing quote, or the text's end.
    private static func stringEnd(_ json: UnsafeRawBufferPointer, from start: Int) -> Int {
        var place = start
        while place < json.count, json[place] != UInt8(ascii: "\"") {
            place += json[place] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(place, json.count)
    }

    /// The position after the string, object or array that begins here.
    private static func valueEnd(_ json: UnsafeRawBufferPointer, from start: Int) -> Int {
        var (place, depth) = (start, 0)
        while place < json.count {
            switch json[place] {
            case UInt8(ascii: "\""): place = stringEnd(json, from: place + 1)
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            default: break
            }
            place += 1
            if depth <= 0 { return min(place, json.count) }
        }
        return json.count
    }
}
