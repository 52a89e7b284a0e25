/// A position in a JSON text, and the grammar's productions that advance it.
///
/// Whoever holds the reader borrows the text for as long. Every production checks the end before it reads a byte.
struct JSONReader {
    let base: UnsafePointer<UInt8>
    let end: Int
    var at = 0
    /// The traits found since the caller last cleared them.
    var traits: JSONTraits = []

    init(base: UnsafePointer<UInt8>, end: Int, at: Int = 0) {
        self.base = base
        self.end = end
        self.at = at
    }

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
    mutating func readScalar() throws(JSONSyntaxError) -> JSONKind {
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
}
