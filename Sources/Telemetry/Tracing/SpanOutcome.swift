/// The outcome of a recorded span (`upstream_trace_spans_total{outcome}`).
package enum SpanOutcome: Int, MetricLabel {
    /// The collector accepted it.
    case exported
    /// Dropped, since too many waited.
    case dropped
    /// Given up: the collector refused it, or was away for too long.
    case failed

    package var text: String {
        switch self {
        case .exported: "exported"
        case .dropped: "dropped"
        case .failed: "failed"
        }
    }
}
