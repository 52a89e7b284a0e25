package import Telemetry
package import Tracing

/// A span that has ended, as it is exported.
package struct FinishedSpan: Sendable {
    /// The span's ids and flags.
    package var context: TraceContext
    /// The span above; nil for the first of a trace.
    package var parent: TraceContext?
    /// Its name.
    package var name: String
    /// Its kind.
    package var kind: SpanKind
    /// Nanoseconds since 1970-01-01 UTC.
    package var start: UInt64
    /// Nanoseconds since 1970-01-01 UTC.
    package var end: UInt64
    /// Its attributes.
    package var attributes: SpanAttributes = [:]
    /// What happened during it.
    package var events: [SpanEvent] = []
    /// Events over ``SpanLimits/events``.
    package var droppedEvents = 0
    /// Spans of other traces that belong to it.
    package var links: [SpanLink] = []
    /// Links over ``SpanLimits/links``.
    package var droppedLinks = 0
    /// How it ended; nil where nobody said.
    package var status: SpanStatus?
}

/// How much one span may hold: handlers of the installation's own put in what they like.
package enum SpanLimits {
    /// Attributes of a span, an event or a link.
    package static let attributes = 128
    /// Events of a span.
    package static let events = 128
    /// Links of a span.
    package static let links = 128
    /// Bytes of a name, a text or a status's message; the rest is cut off.
    package static let text = 1024
    /// Elements of an array.
    package static let elements = 128
}
