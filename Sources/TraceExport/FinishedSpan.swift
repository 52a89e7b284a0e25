package import Telemetry
package import Tracing

package struct FinishedSpan: Sendable {
    package var context: TraceContext
    package var parent: TraceContext?
    package var name: String
    package var kind: SpanKind
    /// The start in nanoseconds since 1970-01-01 UTC.
    package var start: UInt64
    /// The end, likewise; known once it has ended.
    package var end: UInt64 = 0
    package var attributes: SpanAttributes = [:]
    package var events: [SpanEvent] = []
    package var droppedEvents = 0
    package var links: [SpanLink] = []
    package var droppedLinks = 0
    package var status: SpanStatus?
}

/// The size limits of a span, since an installation's own handlers can add anything.
package enum SpanLimits {
    /// Attributes of a span, its event or link; a span's events and its links; elements of an attribute.
    package static let entries = 128
    /// Bytes of a name, a text or a status's message; the rest is cut off.
    package static let text = 1024
}
