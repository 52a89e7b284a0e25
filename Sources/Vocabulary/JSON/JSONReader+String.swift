import CBytes

extension JSONReader {
    /// Reads the rest of a string, from after its opening quote to after its closing one.
    mutating func readString() throws(JSONSyntaxError) {
        while true {
            skipPlain()
            guard at < end else { throw JSONSyntaxError(.unexpectedEnd, at: at) }
            let byte = base[at]
            switch byte {
            case UInt8(ascii: "\""):
                at += 1
                return
            case UInt8(ascii: "\\"):
                try readEscape()
            case 0..<0x20:
                throw JSONSyntaxError(.controlCharacter, at: at)
            case 0x80...:
                try readMultibyte(byte)
            default:
                at += 1
            }
        }
    }

    /// Moves to the next byte that is not plain text: a quote, backslash, control character, or outside ASCII.
    ///
    /// It may stop early within the text's last 15 bytes.
    @inline(__always)
    private mutating func skipPlain() {
        at &+= upstream_plain_json(base + at, end &- at)
    }

    /// Reads one character of two to four bytes (RFC 3629 section 4).
    private mutating func readMultibyte(_ lead: UInt8) throws(JSONSyntaxError) {
        let length: Int
        var second: ClosedRange<UInt8> = 0x80...0xbf
        switch lead {
        case 0xc2...0xdf: length = 2
        case 0xe0:
            length = 3
            second = 0xa0...0xbf
        case 0xe1...0xec, 0xee...0xef: length = 3
        case 0xed:
            length = 3
            second = 0x80...0x9f
        case 0xf0:
            length = 4
            second = 0x90...0xbf
        case 0xf1...0xf3: length = 4
        case 0xf4:
            length = 4
            second = 0x80...0x8f
        default: throw JSONSyntaxError(.invalidUTF8, at: at)
        }
        guard end - at >= length, second.contains(base[at + 1]) else { throw JSONSyntaxError(.invalidUTF8, at: at) }
        for offset in 2..<4 where offset < length && base[at + offset] & 0xc0 != 0x80 {
            throw JSONSyntaxError(.invalidUTF8, at: at)
        }
        at += length
    }

    /// Reads an escape, from its backslash.
    private mutating func readEscape() throws(JSONSyntaxError) {
        traits.insert(.escaped)
        let start = at
        at += 1
        switch try peek() {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            at += 1
        case UInt8(ascii: "u"):
            let unit = try readUnit(escapeAt: start)
            switch unit {
            case 0: traits.insert(.null)
            case 0xdc00...0xdfff: traits.insert(.loneSurrogate)
            case 0xd800...0xdbff: try readLowSurrogate()
            default: break
            }
        default:
            throw JSONSyntaxError(.invalidEscape, at: start)
        }
    }

    /// Reads the second half of a surrogate pair if it follows; leaves anything else for the next round.
    private mutating func readLowSurrogate() throws(JSONSyntaxError) {
        let start = at
        guard end - at >= 2, base[at] == UInt8(ascii: "\\"), base[at + 1] == UInt8(ascii: "u") else {
            traits.insert(.loneSurrogate)
            return
        }
        at += 1
        let unit = try readUnit(escapeAt: start)
        guard unit < 0xdc00 || unit > 0xdfff else { return }
        traits.insert(.loneSurrogate)
        at = start
    }

    /// Reads `uXXXX`.
    private mutating func readUnit(escapeAt start: Int) throws(JSONSyntaxError) -> UInt32 {
        at += 1
        guard end - at >= 4 else { throw JSONSyntaxError(.unexpectedEnd, at: end) }
        guard let unit = JSONLiteral.unit(base + at) else { throw JSONSyntaxError(.invalidEscape, at: start) }
        at += 4
        return unit
    }
}
