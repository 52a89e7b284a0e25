package import Tracing

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
