package import Tracing

/// What the pipeline and its tracer say to each other beyond the tracing API.
extension InstrumentationContext {
    private enum TraceContextKey: InstrumentationContextKey {
        typealias Value = TraceContext
        static var nameOverride: String? { "trace-context" }
    }

    private enum SpanIdentityKey: InstrumentationContextKey {
        typealias Value = TraceContext
        static var nameOverride: String? { "span-identity" }
    }

    /// The span that spans begun here are children of; nil for a new trace.
    package var traceContext: TraceContext? {
        get { self[TraceContextKey.self] }
        set { self[TraceContextKey.self] = newValue }
    }

    /// The ids that the next span is to have, instead of random ones, and whether it is recorded where it has no parent.
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
