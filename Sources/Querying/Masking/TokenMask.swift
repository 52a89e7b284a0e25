import Glibc
import Vocabulary

/// Masks the registration token in the `data` of a CCS receipt.
///
/// A receipt's `from` is the service itself; the device's token is in the member `device_registration_id` ([XMPP server
/// reference](https://firebase.google.com/docs/cloud-messaging/xmpp-server-ref), "Message receipt"). It is masked at
/// any depth, in any type of message, and however the member's name is escaped. A string whose text has that member in
/// turn is masked whole.
package enum TokenMask {
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
    ///
    /// JSON stays JSON, whatever the token is, which may be chosen to break it.
    static func mask(_ json: UnsafeRawBufferPointer, of token: UnsafeRawBufferPointer) -> [UInt8]? {
        let own = token.count >= shortest && TokenText.firstIndex(of: token, in: json) != nil ? token : nil
        guard own != nil || mayHold(json) else { return nil }
        return json.withMemoryRebound(to: UInt8.self) { text in
            var masked: [UInt8] = []
            var copied = 0
            var tokens = JSONTokens(text)
            while let token = tokens.next() {
                guard let (range, new) = change(token, &tokens, own) else { continue }
                masked += text[copied..<range.lowerBound]
                masked += new
                copied = range.upperBound
            }
            return copied > 0 ? masked + text[copied...] : nil
        }
    }

    /// What a token of JSON, or the value after it, becomes; nil for what stays.
    private static func change(
        _ token: JSONToken,
        _ tokens: inout JSONTokens,
        _ own: UnsafeRawBufferPointer?
    ) -> (Range<Int>, [UInt8])? {
        guard [.name, .string, .other].contains(token.kind) else { return nil }
        let whole = Array("\"(masked)\"".utf8)
        // Of a number or a word all of it.
        let content = token.kind == .other ? tokens.text(of: token) : tokens.body(of: token)
        if token.kind == .name, isMember(content) {
            _ = tokens.next()
            var ahead = tokens
            guard let value = ahead.nextValue(), value.kind != .other else { return nil }
            tokens = ahead
            return (value.range, whole)
        }
        if token.kind != .other, holdsMember(content, isValid: token.isValid) { return (token.range, whole) }
        guard let own, let plain = TokenText.replace(own, in: UnsafeRawBufferPointer(content)) else { return nil }
        // Among escapes it may begin inside one.
        guard token.kind != .other, !content.contains(UInt8(ascii: "\\")) else { return (token.range, whole) }
        let start = token.range.lowerBound + 1
        return (start..<start + content.count, plain)
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
    private static func isMember(_ content: UnsafeBufferPointer<UInt8>) -> Bool {
        content.count >= name.count && JSONLiteral.text(of: content) == name
    }

    /// Whether a string's content, still escaped, is text with the member in turn: JSON in a JSON string.
    private static func holdsMember(_ content: UnsafeBufferPointer<UInt8>, isValid: Bool) -> Bool {
        guard content.count > name.count + 4, mayHold(UnsafeRawBufferPointer(content)) else { return false }
        return !isValid || TokenText.holdsMember(JSONLiteral.text(of: content))
    }
}
