/// A strict scanner of JSON texts (RFC 8259) that validates the whole text and finds the top-level members.
///
/// It builds nothing: a member is a pair of spans into the text. The text must be UTF-8 without a byte order mark;
/// repeated keys are left to the caller. Nesting costs one bit per level, never stack. A scanner reuses its storage.
package struct JSONScanner: Sendable {
    /// The deepest nesting of a value that counts as castable to `jsonb`; `[]` has depth 1.
    ///
    /// PostgreSQL's JSON parser recurses until `max_stack_depth` is used up (SQLSTATE 54001): measured with PostgreSQL
    /// 15 on x86-64, from 13,072 objects on with the default of 2 MB, and from 605 on with the minimum, 100 kB.
    package static let maximumCastableDepth = 512

    /// The last scanned object's members in order; empty after any other value or a fault.
    package private(set) var members: [JSONMember] = []

    private var nesting = JSONNesting()

    package init() {}

    /// Scans one JSON text; for an object, ``members`` holds its members then.
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
            members.append(JSONMember(key: key, value: value, kind: kind, keyTraits: keyTraits, traits: reader.traits))
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

extension JSONScanner {
    /// The members of an object that have these names, as texts; null is left out.
    ///
    /// Unlike Foundation's reader it minds neither how deep the others nest nor how large their numbers are.
    ///
    /// - Returns: nil for what is no object, or where one of them is neither a string nor null.
    package static func texts(_ names: [String], of json: [UInt8]) -> [String: String]? {
        json.withUnsafeBufferPointer { text in
            var scanner = JSONScanner()
            guard (try? scanner.scan(text)) == .object else { return nil }
            var texts: [String: String] = [:]
            for member in scanner.members where member.kind != .null {
                let name = String(decoding: JSONLiteral.text(of: member.key, in: text), as: UTF8.self)
                guard names.contains(name) else { continue }
                guard member.isString else { return nil }
                var bytes = JSONLiteral.text(of: member.body, in: text)
                if member.traits.contains(.null) { bytes.replace([0xC0, 0x80], with: [0]) }
                texts[name] = String(decoding: bytes, as: UTF8.self)
            }
            return texts
        }
    }
}

/// The kind of container at each open level: one bit per level, true for an object.
struct JSONNesting: Sendable {
    private var top: UInt64 = 0
    private var full: [UInt64] = []
    private(set) var depth = 0

    /// Whether the innermost container is an object.
    var isObject: Bool { top & 1 != 0 }

    mutating func reset() {
        top = 0
        depth = 0
        full.removeAll(keepingCapacity: true)
    }

    mutating func push(object: Bool) {
        if depth & 63 == 0, depth > 0 {
            full.append(top)
            top = 0
        }
        top = top << 1 | (object ? 1 : 0)
        depth += 1
    }

    mutating func pop() {
        top >>= 1
        depth -= 1
        if depth & 63 == 0, let below = full.popLast() { top = below }
    }
}
