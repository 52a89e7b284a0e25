import Synchronization
import Telemetry
package import Tracing

/// Our span: collects its data and hands it over at its end.
package final class RecordedSpan: Tracing.Span {
    private struct State {
        var span: FinishedSpan
        var isEnded = false
    }

    package let context: InstrumentationContext
    /// Whether it will be exported; else its data is discarded at once.
    private let isSampled: Bool
    private let state: Mutex<State>
    private let queue: SpanQueue

    init(_ span: FinishedSpan, context: InstrumentationContext, queue: SpanQueue) {
        self.context = context
        self.queue = queue
        isSampled = span.context.isSampled
        state = Mutex(State(span: span))
    }

    package var isRecording: Bool { isSampled && state.withLock { !$0.isEnded } }

    package var operationName: String {
        get { state.withLock { $0.span.name } }
        set { change { $0.name = newValue } }
    }

    package var attributes: SpanAttributes {
        get { state.withLock { $0.span.attributes } }
        set { change { $0.attributes = newValue } }
    }

    package func setStatus(_ status: SpanStatus) { change { $0.status = status } }

    package func addEvent(_ event: SpanEvent) {
        change { span in
            if span.events.count < SpanLimits.entries { span.events.append(event) } else { span.droppedEvents += 1 }
        }
    }

    /// Records only an error's type: its text may quote a payload.
    package func recordError<Instant: TracerInstant>(
        _ error: any Error,
        attributes: SpanAttributes,
        at instant: @autoclosure () -> Instant
    ) {
        guard isSampled else { return }
        var attributes = attributes
        attributes.set("exception.type", value: .string("\(type(of: error))"))
        addEvent(SpanEvent(name: "exception", at: instant(), attributes: attributes))
    }

    package func addLink(_ link: SpanLink) {
        change { span in
            if span.links.count < SpanLimits.entries { span.links.append(link) } else { span.droppedLinks += 1 }
        }
    }

    /// Ends the span; only the first call counts.
    package func end<Instant: TracerInstant>(at instant: @autoclosure () -> Instant) {
        guard isSampled else { return }
        let end = instant().nanosecondsSinceEpoch
        let finished = state.withLock { state -> FinishedSpan? in
            if state.isEnded { return nil }
            state.isEnded = true
            // The wall clock may have been set back meanwhile.
            state.span.end = max(end, state.span.start)
            return state.span
        }
        if let finished { queue.append(finished) }
    }

    private func change(_ body: (inout FinishedSpan) -> Void) {
        guard isSampled else { return }
        state.withLock { state in
            if !state.isEnded { body(&state.span) }
        }
    }
}
