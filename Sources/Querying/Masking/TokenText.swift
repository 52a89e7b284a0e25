import CGlibc

/// Finds registration tokens in any text: devices' strings that may hold JSON, and what handlers say of a message.
package enum TokenText {
    package static let masked = "(masked)"
    /// Runs of token characters of at least this length are taken for tokens; those of FCM have 140 and more.
    private static let longRun = 100
    /// The beginning of a token at the end of a text is masked from this length on.
    private static let shortestPart = 6

    /// Whether a string's content, unescaped, may hold a token.
    ///
    /// That is JSON text (in JSON text, and so on) with a member that does, or a run of characters that looks like one.
    static func mayHold(_ content: [UInt8]) -> Bool {
        guard content.count > 7 else { return false }
        if hasLongRun(content) { return true }
        return holdsMember(content) { content in contains(content, Array(#"from""#.utf8)) }
    }

    /// Whether a string's content holds ``TokenMask/member``, under any number of escapes.
    static func holdsMember(_ content: [UInt8], or isSuspect: ([UInt8]) -> Bool = { _ in false }) -> Bool {
        var content = content
        while true {
            if content.count > TokenMask.member.utf8.count + 4, contains(content, Array(TokenMask.member.utf8)) {
                return true
            }
            if isSuspect(content) { return true }
            let plain = unescaped(content)
            guard plain.count < content.count else { return false }
            content = plain
        }
    }

    /// Masks a message's tokens in what a handler said.
    ///
    /// - Returns: The text with ``masked`` for each token; ``masked`` alone if it holds a token in another spelling.
    package static func mask(_ text: String, _ tokens: [String]) -> String {
        var bytes = Array(text.utf8)
        let tokens = tokens.map { Array($0.utf8) }.filter { !$0.isEmpty }
        for token in tokens {
            bytes = bytes.withUnsafeBytes { text in token.withUnsafeBytes { replace($0, in: text) } } ?? bytes
        }
        for token in tokens { bytes = maskEnd(token, in: bytes) }
        bytes = maskRuns(bytes)
        // A member in quotation marks, an XML element, a parameter: after its name, the end of the value is unknown.
        let name = Array(TokenMask.member.utf8)
        let start = firstIndex(of: name, in: bytes)
        var plain = start.map { Array(bytes[..<$0]) } ?? bytes
        if let start { bytes = Array(bytes[..<(start + name.count)]) + Array(masked.utf8) }
        while true {
            let next = unescaped(plain)
            guard next.count < plain.count else { return String(decoding: bytes, as: UTF8.self) }
            plain = next
            if contains(plain, name) || tokens.contains(where: { contains(plain, $0) }) { return masked }
        }
    }

    // MARK: Bytes

    /// Resolves escapes of JSON and of URLs once; what is no escape stays.
    private static func unescaped(_ text: [UInt8]) -> [UInt8] {
        var plain: [UInt8] = []
        plain.reserveCapacity(text.count)
        var place = 0
        func hex(_ count: Int) -> UInt32? {
            guard place + 1 + count < text.count else { return nil }
            return UInt32(String(decoding: text[(place + 2)...(place + 1 + count)], as: UTF8.self), radix: 16)
        }
        while place < text.count {
            let byte = text[place]
            let next = place + 1 < text.count ? text[place + 1] : 0
            if byte == UInt8(ascii: "\\"), next == UInt8(ascii: "u"), let number = hex(4), number < 0x80 {
                plain.append(UInt8(number))
                place += 6
            } else if byte == UInt8(ascii: "\\"),
                [UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/")].contains(next)
            {
                plain.append(next)
                place += 2
            } else if byte == UInt8(ascii: "%"), place + 2 < text.count,
                let number = UInt8(String(decoding: text[(place + 1)...(place + 2)], as: UTF8.self), radix: 16),
                number < 0x80
            {
                plain.append(number)
                place += 3
            } else {
                plain.append(byte)
                place += 1
            }
        }
        return plain
    }

    static func firstIndex(
        of part: UnsafeRawBufferPointer,
        in text: UnsafeRawBufferPointer,
        from start: Int = 0
    ) -> Int? {
        guard let base = text.baseAddress, let first = part.baseAddress, !part.isEmpty else { return nil }
        return memmem(base + start, text.count - start, first, part.count).map {
            base.distance(to: UnsafeRawPointer($0))
        }
    }

    private static func firstIndex(of part: [UInt8], in text: [UInt8]) -> Int? {
        text.withUnsafeBytes { text in part.withUnsafeBytes { firstIndex(of: $0, in: text) } }
    }

    private static func contains(_ text: [UInt8], _ part: [UInt8]) -> Bool { firstIndex(of: part, in: text) != nil }

    /// Replaces a token by ``masked``, wherever it is; nil if it is not there.
    static func replace(_ token: UnsafeRawBufferPointer, in text: UnsafeRawBufferPointer) -> [UInt8]? {
        var (result, copied): ([UInt8], Int) = ([], 0)
        while let start = firstIndex(of: token, in: text, from: copied) {
            result += text[copied..<start]
            result += masked.utf8
            copied = start + token.count
        }
        return copied > 0 ? result + text[copied...] : nil
    }

    /// Masks the beginning of a token that was cut with the text.
    private static func maskEnd(_ token: [UInt8], in text: [UInt8]) -> [UInt8] {
        var length = min(token.count - 1, text.count)
        while length >= shortestPart {
            if text[(text.count - length)...].elementsEqual(token[..<length]) {
                return text[..<(text.count - length)] + Array(masked.utf8)
            }
            length -= 1
        }
        return text
    }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ":"): true
        default: false
        }
    }

    private static func hasLongRun(_ text: [UInt8]) -> Bool {
        var length = 0
        for byte in text {
            length = isTokenByte(byte) ? length + 1 : 0
            if length >= longRun { return true }
        }
        return false
    }

    /// Masks each run of characters as long as a token.
    static func maskRuns(_ text: [UInt8]) -> [UInt8] {
        guard hasLongRun(text) else { return text }
        var (result, run): ([UInt8], [UInt8]) = ([], [])
        for byte in text + [0x20] {
            if isTokenByte(byte) {
                run.append(byte)
            } else {
                result += run.count >= longRun ? Array(masked.utf8) : run
                result.append(byte)
                run = []
            }
        }
        return result.dropLast()
    }
}
