package import Telemetry
package import Tracing
import Vocabulary

/// The tracer of swift-distributed-tracing: makes spans, and queues those that are recorded.
///
/// A span with a parent is recorded if its parent is; the first of a trace by the trace's id (OpenTelemetry's
/// `ParentBased(root=TraceIdRatioBased)`).
package struct SpanTracer: Tracer {
    private let sampler: TraceSampler
    private let queue: SpanQueue

    package init(sampler: TraceSampler, queue: SpanQueue) {
        (self.sampler, self.queue) = (sampler, queue)
    }

    package func startSpan<Instant: TracerInstant>(
        _ operationName: String,
        context: @autoclosure () -> InstrumentationContext,
        ofKind kind: SpanKind,
        at instant: @autoclosure () -> Instant,
        function: String,
        file fileID: String,
        line: UInt
    ) -> RecordedSpan {
        var context = context()
        let parent = context.traceContext
        let identity = context.spanIdentity
        let trace = identity?.trace ?? parent?.trace ?? RandomSource.system.digest()
        let isSampled = parent?.isSampled ?? identity?.isSampled ?? sampler.isSampled(trace)
        var own = TraceContext(trace: trace, span: identity?.span ?? .random(in: 1 ... .max), isSampled: isSampled)
        if let parent {
            own.flags = parent.flags
            own.state = parent.state
        }
        context.traceContext = own
        context.spanIdentity = nil
        let start = isSampled ? instant().nanosecondsSinceEpoch : 0
        let span = FinishedSpan(context: own, parent: parent, name: operationName, kind: kind, start: start)
        return RecordedSpan(span, context: context, queue: queue)
    }

    /// Does nothing: spans are exported in the background, and at the end of the process.
    package func forceFlush() {}

    package func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier,
        into context: inout InstrumentationContext,
        using extractor: Extract
    ) where Extract.Carrier == Carrier {
        guard let parent = extractor.extract(key: "traceparent", from: carrier) else { return }
        let state = extractor.extract(key: "tracestate", from: carrier).map { Array($0.utf8) }
        guard let found = TraceContext(traceparent: Array(parent.utf8), tracestate: state) else { return }
        context.traceContext = found
    }

    package func inject<Carrier, Inject: Injector>(
        _ context: InstrumentationContext,
        into carrier: inout Carrier,
        using injector: Inject
    ) where Inject.Carrier == Carrier {
        guard let own = context.traceContext else { return }
        injector.inject(own.traceparent, forKey: "traceparent", into: &carrier)
        if let state = own.state { injector.inject(state, forKey: "tracestate", into: &carrier) }
    }
}
