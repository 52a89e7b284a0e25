import Vocabulary

/// A strict scanner of JSON texts (RFC 8259): validates all of it and tells where the top-level members stand.
///
/// It builds nothing: a member is a pair of spans into the text it was read from. It accepts what the grammar of RFC 8259
/// accepts and nothing else; the text must be UTF-8 without a byte order mark. Repeated keys are left to the caller.
/// Nesting costs one bit a level, so that depth is bounded by the text's length and never by the stack.
///
/// A scanner is reused: its storage stays.
package struct JSONScanner: Sendable {
    /// The deepest nesting of a value that counts as castable to `jsonb`; `[]` is 1 deep.
    ///
    /// PostgreSQL's JSON parser recurses and stops with SQLSTATE 54001 where `max_stack_depth` is used up. Measured with
    /// PostgreSQL 15 on x86-64, deepest cast that worked: 13,072 objects or 14,523 arrays with the default of 2 MB, and 605
    /// objects or 670 arrays with the least that can be configured, 100 kB. 512 is below all of them.
    package static let maximumCastableDepth = 512

    /// The members of the last scanned object, in their order; empty after any other value or a fault.
    package private(set) var members: [JSONMember] = []

    private var nesting = JSONNesting()

    /// A scanner without storage yet.
    package init() {}

    /// Scans one JSON text.
    ///
    /// - Returns: What the text is; for an object, ``members`` holds its members.
    /// - Throws: ``JSONSyntaxError``
    package mutating func scan(_ text: UnsafeBufferPointer<UInt8>) throws(JSONSyntaxError) -> JSONKind {
        members.removeAll(keepingCapacity: true)
        guard let base = text.baseAddress, !text.isEmpty else { throw JSONSyntaxError(.unexpectedEnd, at: 0) }
        guard text.count <= Int32.max else { throw JSONSyntaxError(.tooLong, at: Int(Int32.max)) }
        if text.count >= 3, base[0] == 0xef, base[1] == 0xbb, base[2] == 0xbf {
            throw JSONSyntaxError(.byteOrderMark, at: 0)
        }
        var reader = JSONReader(base: base, end: text.count)
        do throws(JSONSyntaxError) {
            let kind = try scan(&reader)
            reader.skipWhitespace()
            guard reader.at == reader.end else { throw JSONSyntaxError(.trailingBytes, at: reader.at) }
            return kind
        } catch {
            members.removeAll(keepingCapacity: true)
            throw error
        }
    }

    private mutating func scan(_ reader: inout JSONReader) throws(JSONSyntaxError) -> JSONKind {
        reader.skipWhitespace()
        guard try reader.peek() == UInt8(ascii: "{") else { return try reader.readValue(&nesting) }
        reader.at += 1
        reader.skipWhitespace()
        if try reader.peek() == UInt8(ascii: "}") {
            reader.at += 1
            return .object
        }
        while true {
            let keyStart = reader.at + 1
            reader.traits = []
            try reader.expect(UInt8(ascii: "\""))
            try reader.readString()
            let key = ByteSpan(start: keyStart, count: reader.at - 1 - keyStart)
            let keyTraits = reader.traits
            reader.skipWhitespace()
            try reader.expect(UInt8(ascii: ":"))
            reader.skipWhitespace()
            let start = reader.at
            reader.traits = []
            let kind = try reader.readValue(&nesting)
            let value = ByteSpan(start: start, count: reader.at - start)
            members.append(
                JSONMember(key: key, value: value, kind: kind, keyTraits: keyTraits, traits: reader.traits)
            )
            reader.skipWhitespace()
            if try reader.peek() == UInt8(ascii: "}") {
                reader.at += 1
                return .object
            }
            try reader.expect(UInt8(ascii: ","))
            reader.skipWhitespace()
        }
    }
}

/// Which kind of container each open level is: a bit each, true for an object.
struct JSONNesting: Sendable {
    private var top: UInt64 = 0
    private var full: [UInt64] = []
    private(set) var depth = 0

    /// Whether the innermost container is an object.
    var isObject: Bool { top & 1 != 0 }

    /// Forgets all levels.
    mutating func reset() {
        top = 0
        depth = 0
        full.removeAll(keepingCapacity: true)
    }

    /// Opens a level.
    mutating func push(object: Bool) {
        if depth & 63 == 0, depth > 0 {
            full.append(top)
            top = 0
        }
        top = top << 1 | (object ? 1 : 0)
        depth += 1
    }

    /// Closes the innermost level.
    mutating func pop() {
        top >>= 1
        depth -= 1
        if depth & 63 == 0, let below = full.popLast() { top = below }
    }
}
