import Telemetry
import Testing
import Tracing

@testable import TraceExport

@Suite("The tracer of swift-distributed-tracing")
struct SpanTracerTests {
    /// A carrier as requests have it.
    private struct Headers: Extractor, Injector {
        func extract(key: String, from carrier: [String: String]) -> String? { carrier[key] }
        func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key] = value }
    }

    private static let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    @Test("A span joins the trace of the context it is begun in, and is recorded where its parent is")
    func parentBased() throws {
        let spans = SpanCollection()
        let tracer = spans.tracer(ratio: 0)
        for (flags, recorded) in [("01", 1), ("00", 0)] {
            var context = InstrumentationContext.topLevel
            let carrier = ["traceparent": String(Self.parent.dropLast(2)) + flags, "tracestate": "a=1"]
            tracer.extract(carrier, into: &context, using: Headers())
            let span = tracer.startSpan("outer", context: context)
            let inner = tracer.startSpan("inner", context: span.context)
            inner.end()
            span.end()
            let ended = spans.queue.take()
            #expect(ended.count == 2 * recorded)
            #expect(
                ended.allSatisfy {
                    "\($0.context.trace)" == "0af76519-16cd-43dd-8448-eb211c80319c" && $0.context.state == "a=1"
                }
            )
            #expect(ended.first?.parent?.span == ended.last?.context.span)
            #expect(ended.last.map { $0.parent?.isRemote == true } ?? true)
            var injected: [String: String] = [:]
            tracer.inject(span.context, into: &injected, using: Headers())
            let own = try #require(span.context.traceContext)
            #expect(injected == ["traceparent": own.traceparent, "tracestate": "a=1"])
            #expect(own.traceparent.hasSuffix(flags) && own.traceparent != Self.parent)
        }
    }

    @Test("The first span of a trace is recorded by the ratio")
    func roots() {
        let spans = SpanCollection()
        spans.tracer(ratio: 0).startSpan("no", context: .topLevel).end()
        spans.tracer(ratio: 1).startSpan("yes", context: .topLevel).end()
        #expect(spans.queue.take().map(\.name) == ["yes"])
    }

    @Test("A hostile context is none: a new trace begins")
    func hostile() {
        let spans = SpanCollection()
        var context = InstrumentationContext.topLevel
        spans.tracer().extract(["traceparent": Self.parent.uppercased()], into: &context, using: Headers())
        #expect(context.traceContext == nil)
    }

    @Test("What is said after the end is forgotten, and a second end is none")
    func ended() {
        let spans = SpanCollection()
        let span = spans.tracer().startSpan(
            "once",
            context: .topLevel,
            at: DefaultTracerClock.Timestamp(UInt64.max / 2)
        )
        #expect(span.isRecording)
        span.end()
        span.end()
        span.operationName = "twice"
        span.setStatus(SpanStatus(code: .error))
        let all = spans.queue.take()
        #expect(all.map(\.name) == ["once"] && all[0].status == nil && !span.isRecording)
        // The clock was behind the span's begin at its end.
        #expect(all[0].end == all[0].start)
    }

    @Test("An error is noted by its type; what its text quotes stays here")
    func errors() {
        struct Failure: Error, CustomStringConvertible { var description = "FAKE-PAYLOAD" }
        let spans = SpanCollection()
        #expect(throws: Failure.self) {
            try spans.tracer().withSpan("failing", context: .topLevel) { _ -> Void in throw Failure() }
        }
        let span = spans.queue.take()
        #expect(span.first?.events.map(\.name) == ["exception"])
        #expect(!"\(span)".contains("FAKE-PAYLOAD"))
        #expect(span.first?.status?.code == .error)
    }

    @Test("A span's events and links have limits, and what is left out is counted")
    func limits() {
        let spans = SpanCollection()
        let span = spans.tracer().startSpan("full", context: .topLevel)
        for number in 0..<200 {
            span.addEvent(SpanEvent(name: "\(number)"))
            span.addLink(SpanLink(context: span.context, attributes: [:]))
        }
        span.end()
        let full = spans.queue.take()[0]
        #expect((full.events.count, full.droppedEvents) == (128, 72))
        #expect((full.links.count, full.droppedLinks) == (128, 72))
    }
}

extension DefaultTracerClock.Timestamp {
    fileprivate init(_ nanoseconds: UInt64) { self.init(nanosecondsSinceEpoch: nanoseconds) }
}
