package import Tracing
package import Vocabulary

/// Records spans of ingest and dispatch; absent if tracing is off.
///
/// A message belongs to the trace named in its data, else to its own, whose id is the message's key. If the message's
/// trace is recorded, so are its batch and its attempts, in every worker with the same ratio.
package struct MessageTracing: Sendable {
    package let tracer: any Tracer
    private let sampler: TraceSampler
    /// Where messages carry a context; nil to ignore it.
    private let member: TraceMember?
    /// By their index in ``IncomingMessage/sender``.
    private let senderIDs: [String]

    package init(tracer: any Tracer, sampler: TraceSampler, member: TraceMember?, senderIDs: [String]) {
        self.tracer = tracer
        self.sampler = sampler
        self.member = member
        self.senderIDs = senderIDs
    }

    package func context(in data: [UInt8]?) -> TraceContext? {
        guard let member, let data else { return nil }
        return member.context(in: data.span)
    }

    package func context(of copy: borrowing IncomingMessage) -> TraceContext? {
        guard let member, let data = copy.data else { return nil }
        return copy.bytes.withUnsafeBufferPointer { member.context(in: $0.span.extracting(data.range)) }
    }

    /// The context of a message without one.
    package func context(for key: Digest128) -> TraceContext {
        TraceContext(messageKey: key, isSampled: sampler.isSampled(key))
    }

    package func senderID(_ index: UInt16) -> String? {
        senderIDs.indices.contains(Int(index)) ? senderIDs[Int(index)] : nil
    }
}

extension DefaultTracerClock.Timestamp {
    /// A wall-clock time in microseconds since 1970-01-01 UTC.
    package init(microseconds: Int64) {
        self.init(nanosecondsSinceEpoch: UInt64(clamping: microseconds) &* 1000)
    }
}

extension InstrumentationContext {
    private enum TraceContextKey: InstrumentationContextKey {
        typealias Value = TraceContext
        static var nameOverride: String? { "trace-context" }
    }

    private enum SpanIdentityKey: InstrumentationContextKey {
        typealias Value = TraceContext
        static var nameOverride: String? { "span-identity" }
    }

    /// The parent of spans started here; nil for a new trace.
    package var traceContext: TraceContext? {
        get { self[TraceContextKey.self] }
        set { self[TraceContextKey.self] = newValue }
    }

    /// The ids of the next span instead of random ones, and whether it is recorded if it has no parent.
    package var spanIdentity: TraceContext? {
        get { self[SpanIdentityKey.self] }
        set { self[SpanIdentityKey.self] = newValue }
    }

    /// A context whose spans are children of this one.
    package init(childOf parent: TraceContext) {
        self = .topLevel
        traceContext = parent
    }
}
