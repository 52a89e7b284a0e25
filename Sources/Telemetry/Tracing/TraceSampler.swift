package import Vocabulary

/// Samples by the trace's id, so that all processes with the same ratio agree.
///
/// OpenTelemetry's `TraceIdRatioBased`: it compares the last 56 bits, which are random in most systems
/// (https://www.w3.org/TR/trace-context-2/, section 3.2.2.3.1).
package struct TraceSampler: Sendable, Hashable {
    /// Traces whose last 56 bits are below it are recorded.
    private let threshold: UInt64
    private static let all: UInt64 = 1 << 56

    /// A sampler of this share of all traces, clamped to 0...1; NaN and infinity count as 0.
    package init(ratio: Double) {
        threshold = UInt64(Double(Self.all) * min(max(ratio.isFinite ? ratio : 0, 0), 1))
    }

    package func isSampled(_ trace: Digest128) -> Bool {
        trace.high | trace.low != 0 && trace.low & (Self.all - 1) < threshold
    }
}
