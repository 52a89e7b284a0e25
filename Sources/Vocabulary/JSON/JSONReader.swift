import CBytes

/// A position in a JSON text, and the grammar's productions that advance it.
///
/// Whoever holds the reader borrows the text for as long. Every production checks the end before it reads a byte.
struct JSONReader {
    let base: UnsafePointer<UInt8>
    let end: Int
    var at = 0
    /// The traits found since the caller last cleared them.
    var traits: JSONTraits = []

    @inline(__always)
    func peek() throws(JSONSyntaxError) -> UInt8 {
        guard at < end else { throw JSONSyntaxError(.unexpectedEnd, at: at) }
        return base[at]
    }

    /// Moves past a byte, or throws if another one follows.
    @inline(__always)
    mutating func expect(_ byte: UInt8) throws(JSONSyntaxError) {
        guard try peek() == byte else { throw JSONSyntaxError(.unexpectedByte, at: at) }
        at += 1
    }

    /// Moves past space, tab, line feed and carriage return: JSON's whitespace.
    @inline(__always)
    mutating func skipWhitespace() {
        while at < end, base[at] <= 0x20, base[at] == 0x20 || base[at] == 0x0a || base[at] == 0x0d || base[at] == 0x09 {
            at += 1
        }
    }

    mutating func readValue(_ nesting: inout JSONNesting) throws(JSONSyntaxError) -> JSONKind {
        switch try peek() {
        case UInt8(ascii: "\""):
            at += 1
            try readString()
            return .string
        case UInt8(ascii: "{"):
            try readContainer(&nesting)
            return .object
        case UInt8(ascii: "["):
            try readContainer(&nesting)
            return .array
        default:
            return try readScalar()
        }
    }

    /// Reads a number or one of the three words.
    private mutating func readScalar() throws(JSONSyntaxError) -> JSONKind {
        switch try peek() {
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            try readNumber()
            return .number
        case UInt8(ascii: "t"):
            try readWord("true")
            return .boolean
        case UInt8(ascii: "f"):
            try readWord("false")
            return .boolean
        case UInt8(ascii: "n"):
            try readWord("null")
            return .null
        default:
            throw JSONSyntaxError(.unexpectedByte, at: at)
        }
    }

    private mutating func readWord(_ word: StaticString) throws(JSONSyntaxError) {
        let letters = word.utf8Start
        for offset in 0..<word.utf8CodeUnitCount {
            guard try peek() == letters[offset] else { throw JSONSyntaxError(.unexpectedByte, at: at) }
            at += 1
        }
    }

    /// What may come next inside a container.
    private enum Step {
        case value
        /// A value, or the end of an empty array.
        case firstValue
        case key
        /// A key, or the end of an empty object.
        case firstKey
        /// A comma, or the end.
        case separator
    }

    /// Reads an object or array with all its contents, without recursion.
    private mutating func readContainer(_ nesting: inout JSONNesting) throws(JSONSyntaxError) {
        nesting.reset()
        var step = Step.value
        repeat {
            skipWhitespace()
            let byte = try peek()
            switch step {
            case .value, .firstValue:
                step = try readElement(byte, mayEnd: step == .firstValue, &nesting)
            case .key, .firstKey:
                step = try readKey(byte, mayEnd: step == .firstKey, &nesting)
            case .separator:
                if byte == UInt8(ascii: ",") {
                    step = nesting.isObject ? .key : .value
                } else if byte == (nesting.isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
                    nesting.pop()
                } else {
                    throw JSONSyntaxError(.unexpectedByte, at: at)
                }
                at += 1
            }
        } while nesting.depth > 0
    }

    @inline(__always)
    private mutating func readElement(
        _ byte: UInt8,
        mayEnd: Bool,
        _ nesting: inout JSONNesting
    ) throws(JSONSyntaxError) -> Step {
        switch byte {
        case UInt8(ascii: "\""):
            at += 1
            try readString()
            return .separator
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            at += 1
            nesting.push(object: byte == UInt8(ascii: "{"))
            if nesting.depth > JSONScanner.maximumCastableDepth { traits.insert(.tooDeep) }
            return byte == UInt8(ascii: "{") ? .firstKey : .firstValue
        case UInt8(ascii: "]") where mayEnd:
            at += 1
            nesting.pop()
            return .separator
        default:
            _ = try readScalar()
            return .separator
        }
    }

    @inline(__always)
    private mutating func readKey(
        _ byte: UInt8,
        mayEnd: Bool,
        _ nesting: inout JSONNesting
    ) throws(JSONSyntaxError) -> Step {
        if byte == UInt8(ascii: "}"), mayEnd {
            at += 1
            nesting.pop()
            return .separator
        }
        try expect(UInt8(ascii: "\""))
        try readString()
        skipWhitespace()
        try expect(UInt8(ascii: ":"))
        return .value
    }

    // MARK: - Strings

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
                try readMultibyte()
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

    /// Reads one character of two to four bytes.
    private mutating func readMultibyte() throws(JSONSyntaxError) {
        let length = upstream_utf8_length(base + at, end &- at)
        guard length > 0 else { throw JSONSyntaxError(.invalidUTF8, at: at) }
        at &+= length
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

    // MARK: - Numbers

    /// Reads a number and notes whether `numeric` can hold it.
    ///
    /// The limits are those of PostgreSQL's `numeric_in`, which the cast to `jsonb` calls (measured with PostgreSQL
    /// 15):
    /// - the first digit that is not 0 is at most at 10^131071;
    /// - at most 16,383 digits remain after the decimal point once the exponent has moved it, including zeros;
    /// - the exponent is less than 1,073,741,823 (half of `INT_MAX`) either way, even of a zero.
    private mutating func readNumber() throws(JSONSyntaxError) {
        let start = at
        if base[at] == UInt8(ascii: "-") { at += 1 }
        let integerStart = at
        guard at < end else { throw JSONSyntaxError(.unexpectedEnd, at: at) }
        skipDigits()
        let integerDigits = at - integerStart
        guard integerDigits > 0, integerDigits == 1 || base[integerStart] != UInt8(ascii: "0") else {
            throw JSONSyntaxError(.invalidNumber, at: start)
        }
        var fraction = at..<at
        if at < end, base[at] == UInt8(ascii: ".") {
            at += 1
            let first = at
            skipDigits()
            fraction = first..<at
            guard !fraction.isEmpty else {
                throw JSONSyntaxError(at < end ? .invalidNumber : .unexpectedEnd, at: at)
            }
        }
        var exponent = 0
        if at < end, base[at] | 0x20 == UInt8(ascii: "e") { exponent = try readExponent() }
        // Enough for common numbers: few digits and no exponent.
        if exponent == 0, integerDigits <= 131_072, fraction.count <= 16_383 { return }
        judge(integer: integerStart..<integerStart + integerDigits, fraction: fraction, exponent: exponent)
    }

    /// Reads an exponent, from its `e`.
    ///
    /// - Returns: Its value; beyond 10^10 only the sign is right.
    private mutating func readExponent() throws(JSONSyntaxError) -> Int {
        at += 1
        let sign = try peek()
        if sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { at += 1 }
        let first = at
        var value = 0
        while at < end, base[at] >= UInt8(ascii: "0"), base[at] <= UInt8(ascii: "9") {
            if value < 10_000_000_000 { value = value * 10 + Int(base[at] - UInt8(ascii: "0")) }
            at += 1
        }
        guard at > first else { throw JSONSyntaxError(at < end ? .invalidNumber : .unexpectedEnd, at: at) }
        return sign == UInt8(ascii: "-") ? -value : value
    }

    private mutating func judge(integer: Range<Int>, fraction: Range<Int>, exponent: Int) {
        let scale = fraction.count - exponent
        guard abs(exponent) < 1_073_741_823, scale <= 16_383 else {
            traits.insert(.numberOutOfRange)
            return
        }
        var position = integer.count - 1 + exponent
        for range in [integer, fraction] {
            for index in range {
                if base[index] != UInt8(ascii: "0") {
                    if position > 131_071 { traits.insert(.numberOutOfRange) }
                    return
                }
                position -= 1
            }
        }
    }

    @inline(__always)
    private mutating func skipDigits() {
        while at < end, base[at] >= UInt8(ascii: "0"), base[at] <= UInt8(ascii: "9") { at += 1 }
    }
}
