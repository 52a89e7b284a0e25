import CGlibc
import Vocabulary

/// The member of a message's `data` in which apps send their trace context.
///
/// A text with escapes, of another type or in another form than W3C's is no context.
package struct TraceMember: Sendable {
    /// The most names in a path.
    package static let depthLimit = 8

    /// The names on the path, UTF-8; the last one is the member's own.
    private let path: [[UInt8]]
    private static let state = Array("tracestate".utf8)

    /// The member at a path such as `meta.traceparent`, of at most ``depthLimit`` names; `tracestate` stands next to it.
    package init?(path: String) {
        let names = path.split(separator: ".", omittingEmptySubsequences: false).map { Array($0.utf8) }
        let isPath = names.allSatisfy { !$0.isEmpty && !$0.contains(0x5C) }
        guard isPath, names.count <= Self.depthLimit else { return nil }
        self.path = names
    }

    /// The context in `json`, which is valid JSON; nil if there is none, or it is invalid.
    package func context(in json: Span<UInt8>) -> TraceContext? {
        guard let name = path.last, Self.holds(json, name) else { return nil }
        return json.withUnsafeBufferPointer { json in
            var tokens = JSONTokens(json)
            guard tokens.next()?.kind == .object, Self.enter(path.dropLast(), &tokens) else { return nil }
            var parent: [UInt8]?
            var state: [UInt8]?
            while parent == nil || state == nil, let member = tokens.nextName() {
                let isParent = parent == nil && tokens.body(of: member).elementsEqual(name)
                let isState = !isParent && state == nil && tokens.body(of: member).elementsEqual(Self.state)
                guard let value = tokens.nextValue() else { break }
                if isParent { parent = Self.text(value, tokens, atMost: 512) }
                if isState { state = Self.text(value, tokens, atMost: TraceState.byteLimit) }
            }
            return parent.flatMap { TraceContext(traceparent: $0, tracestate: state) }
        }
    }

    /// Enters the objects on the path.
    private static func enter(_ names: ArraySlice<[UInt8]>, _ tokens: inout JSONTokens) -> Bool {
        for name in names {
            while true {
                guard let member = tokens.nextName() else { return false }
                if tokens.body(of: member).elementsEqual(name) { break }
                guard tokens.nextValue() != nil else { return false }
            }
            guard tokens.next()?.kind == .object else { return false }
        }
        return true
    }

    /// The bytes of a string; nil for another value, one that is too long, and one with escapes.
    private static func text(_ value: JSONToken, _ tokens: JSONTokens, atMost limit: Int) -> [UInt8]? {
        guard value.kind == .string, value.isValid else { return nil }
        let body = tokens.body(of: value)
        return body.count <= limit && !body.contains(UInt8(ascii: "\\")) ? Array(body) : nil
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
}
