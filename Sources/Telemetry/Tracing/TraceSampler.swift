package import Vocabulary

/// Decides by a trace's id whether it is recorded, so that all processes with the same ratio decide the same.
///
/// OpenTelemetry's `TraceIdRatioBased`: the last 56 bits are compared, which are random in most systems
/// (https://www.w3.org/TR/trace-context-2/, section 3.2.2.3.1).
package struct TraceSampler: Sendable, Hashable {
    /// Traces whose last 56 bits are below it are recorded.
    private let threshold: UInt64
    private static let all: UInt64 = 1 << 56

    /// A sampler that records this part of all traces.
    ///
    /// - Parameter ratio: From 0 (none) to 1 (all); what lies outside counts as the nearer end.
    package init(ratio: Double) {
        threshold = UInt64(Double(Self.all) * min(max(ratio.isFinite ? ratio : 0, 0), 1))
    }

    /// Whether the trace is recorded.
    package func isSampled(_ trace: Digest128) -> Bool {
        trace.high | trace.low != 0 && trace.low & (Self.all - 1) < threshold
    }
}
