import CGlibc
package import Telemetry

/// The member of a message's `data` in which apps send their trace context.
///
/// `data` is untrusted: it is valid JSON, nothing more. A text with escapes, of another type or in another form than
/// W3C's is no context.
package struct TraceMember: Sendable {
    /// The most names in a path.
    package static let depthLimit = 8

    /// The names on the path, UTF-8; the last one is the member's own.
    private let path: [[UInt8]]
    private static let state = Array("tracestate".utf8)

    /// The member at a path.
    ///
    /// - Parameter path: Names with dots between them, at most ``depthLimit``: `traceparent`, `meta.traceparent`.
    ///   `tracestate` is looked for next to it.
    package init?(path: String) {
        let names = path.split(separator: ".", omittingEmptySubsequences: false).map { Array($0.utf8) }
        let isPath = names.allSatisfy { !$0.isEmpty && !$0.contains(0x5C) }
        guard isPath, names.count <= Self.depthLimit else { return nil }
        self.path = names
    }

    /// The context in `json`, which is valid JSON; nil if there is none, or it is invalid.
    package func context(in json: Span<UInt8>) -> TraceContext? {
        guard let name = path.last, Self.holds(json, name) else { return nil }
        var scanner = JSONObjectScanner(json.count)
        for outer in path.dropLast() {
            guard scanner.enter(json), scanner.find(outer, json) else { return nil }
        }
        guard scanner.enter(json) else { return nil }
        var parent: Range<Int>?
        var state: Range<Int>?
        while parent == nil || state == nil, let member = scanner.next(json) {
            if parent == nil, Self.equals(json, member, name) {
                parent = scanner.text(json)
            } else if state == nil, Self.equals(json, member, Self.state) {
                state = scanner.text(json)
            }
            guard scanner.skipValue(json) else { break }
        }
        guard let parent, parent.count <= 512 else { return nil }
        var states: [UInt8]?
        if let state, state.count <= TraceState.byteLimit { states = Self.copy(json, state) }
        return TraceContext(traceparent: Self.copy(json, parent), tracestate: states)
    }

    private static func copy(_ json: Span<UInt8>, _ range: Range<Int>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(range.count)
        for index in range { bytes.append(json[index]) }
        return bytes
    }

    /// Whether the name occurs in the text at all: a fast exit for most messages without it.
    private static func holds(_ json: Span<UInt8>, _ name: [UInt8]) -> Bool {
        json.withUnsafeBytes { text in
            name.withUnsafeBytes { name in
                guard let start = text.baseAddress, let wanted = name.baseAddress else { return false }
                return memmem(start, text.count, wanted, name.count) != nil
            }
        }
    }

    fileprivate static func equals(_ json: Span<UInt8>, _ range: Range<Int>, _ name: [UInt8]) -> Bool {
        guard range.count == name.count else { return false }
        for (index, byte) in zip(range, name) where json[index] != byte { return false }
        return true
    }
}

/// Walks an object's members without reading what it does not need.
///
/// For valid JSON; in anything else it finds something or nothing, within its bytes and in one pass.
private struct JSONObjectScanner {
    private let end: Int
    private var position = 0

    init(_ count: Int) { end = count }

    /// Steps into the object that begins here; false for another value.
    mutating func enter(_ json: Span<UInt8>) -> Bool {
        skipSpace(json)
        return take(UInt8(ascii: "{"), json)
    }

    /// Goes to the value of the member with this name.
    mutating func find(_ name: [UInt8], _ json: Span<UInt8>) -> Bool {
        while let member = next(json) {
            if TraceMember.equals(json, member, name) { return true }
            guard skipValue(json) else { return false }
        }
        return false
    }

    /// The raw name of the next member; its value comes next.
    mutating func next(_ json: Span<UInt8>) -> Range<Int>? {
        skipSpace(json)
        if take(UInt8(ascii: ","), json) { skipSpace(json) }
        guard let name = string(json) else { return nil }
        skipSpace(json)
        guard take(UInt8(ascii: ":"), json) else { return nil }
        skipSpace(json)
        return name
    }

    /// The bytes of the string that begins here; nil for another value, and for one with escapes.
    func text(_ json: Span<UInt8>) -> Range<Int>? {
        var copy = self
        guard let range = copy.string(json) else { return nil }
        for index in range where json[index] == UInt8(ascii: "\\") { return nil }
        return range
    }

    /// Skips the value that begins here.
    mutating func skipValue(_ json: Span<UInt8>) -> Bool {
        var depth = 0
        while position < end {
            switch json[position] {
            case UInt8(ascii: "\""):
                guard string(json) != nil else { return false }
                if depth == 0 { return true }
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                position += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                // The end of the enclosing object after a number or a word.
                if depth == 0 { return true }
                depth -= 1
                position += 1
                if depth == 0 { return true }
            case UInt8(ascii: ",") where depth == 0: return true
            default: position += 1
            }
        }
        return false
    }

    private mutating func string(_ json: Span<UInt8>) -> Range<Int>? {
        guard take(UInt8(ascii: "\""), json) else { return nil }
        let start = position
        while position < end {
            switch json[position] {
            case UInt8(ascii: "\""):
                position += 1
                return start..<position - 1
            case UInt8(ascii: "\\"): position += 2
            default: position += 1
            }
        }
        return nil
    }

    private mutating func take(_ byte: UInt8, _ json: Span<UInt8>) -> Bool {
        guard position < end, json[position] == byte else { return false }
        position += 1
        return true
    }

    private mutating func skipSpace(_ json: Span<UInt8>) {
        while position < end {
            switch json[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }
}
