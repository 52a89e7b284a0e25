package import Vocabulary

/// A span's place in a trace, as in W3C Trace Context (https://www.w3.org/TR/trace-context-2/).
package struct TraceContext: Sendable, Hashable {
    /// The trace's id: 16 bytes, not all zero.
    package let trace: Digest128
    /// The span's id: 8 bytes, not all zero.
    package let span: UInt64
    /// The flags of section 3.2.2.5.
    package var flags: UInt8
    /// A valid `tracestate`, if any.
    package var state: String?
    package var isRemote = false

    /// The flag of a span recorded by its caller.
    private static let sampledFlag: UInt8 = 1
    /// The flags passed on: sampled, and a random trace id.
    private static let knownFlags: UInt8 = 3

    /// A context of this process; neither id may be zero.
    package init(trace: Digest128, span: UInt64, isSampled: Bool) {
        self.trace = trace
        self.span = span
        flags = isSampled ? Self.sampledFlag : 0
    }

    package var isSampled: Bool {
        get { flags & Self.sampledFlag != 0 }
        set { flags = newValue ? flags | Self.sampledFlag : flags & ~Self.sampledFlag }
    }

    /// The context of a message that brings none: the same in every worker and attempt.
    ///
    /// The trace's id is the message's key, which leads from a log to the trace.
    package init(messageKey key: Digest128, isSampled: Bool) {
        // The span's id is another mixture of the same digest, as unpredictable as a random one.
        let mixed = (key.high ^ key.low &* 0x9E37_79B9_7F4A_7C15)
        self.init(trace: key, span: mixed == 0 ? 1 : mixed, isSampled: isSampled)
    }
}

extension TraceContext {
    /// The length of `traceparent` in version 00.
    private static let length = 55

    /// Parses another process's `traceparent`, with its `tracestate` if that is valid (section 3.2).
    ///
    /// Strict, as anybody may have written it; what versions after 00 add is ignored (section 3.2.4).
    package init?(traceparent text: [UInt8], tracestate state: [UInt8]? = nil) {
        guard text.count >= Self.length, [2, 35, 52].allSatisfy({ text[$0] == UInt8(ascii: "-") }),
            let version = Self.number(text[0..<2]), version != 0xFF,
            let high = Self.number(text[3..<19]), let low = Self.number(text[19..<35]),
            let span = Self.number(text[36..<52]), let flags = Self.number(text[53..<55])
        else { return nil }
        // Version 00 ends here; a later one may continue after a dash.
        guard text.count == Self.length || (version > 0 && text[Self.length] == UInt8(ascii: "-")) else { return nil }
        guard high | low != 0, span != 0 else { return nil }
        trace = Digest128(high: high, low: low)
        self.span = span
        self.flags = UInt8(truncatingIfNeeded: flags) & Self.knownFlags
        self.state = state.flatMap(TraceState.valid)
        isRemote = true
    }

    /// The number in lower-case digits, at most 16.
    private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
        var number: UInt64 = 0
        for digit in digits {
            guard let value = Hex.value(digit), !(0x41...0x46).contains(digit) else { return nil }
            number = number << 4 | UInt64(value)
        }
        return number
    }

    /// `traceparent` in version 00, written in place, since with tracing on every attempt has one.
    package var traceparent: String {
        String(unsafeUninitializedCapacity: Self.length) { text in
            Hex.write(0 as UInt8, to: text, at: 0)
            Hex.write(trace.high, to: text, at: 3)
            Hex.write(trace.low, to: text, at: 19)
            Hex.write(span, to: text, at: 36)
            Hex.write(flags & Self.knownFlags, to: text, at: 53)
            text.initializeElement(at: 2, to: UInt8(ascii: "-"))
            text.initializeElement(at: 35, to: UInt8(ascii: "-"))
            text.initializeElement(at: 52, to: UInt8(ascii: "-"))
            return Self.length
        }
    }
}
