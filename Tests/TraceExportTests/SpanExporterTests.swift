import IntegrationSupport
import Logging
import Testing

@testable import TraceExport

@Suite("The exporter: bounded, patient, and never in the way", .timeLimit(.minutes(5)))
struct SpanExporterTests {
    private static let request = TraceRequest(service: "s", version: "v", instance: "i")

    /// Runs an exporter over what is in the queue, which is closed first or not at all.
    private func run(
        _ spans: SpanCollection,
        _ collector: ScriptedCollector,
        clock: ManualClock = ManualClock(),
        logger: Logger = .quiet,
        until condition: (@Sendable () -> Bool)? = nil
    ) async throws {
        let exporter = SpanExporter(
            queue: spans.queue,
            request: Self.request,
            counts: spans.counts,
            logger: logger,
            clock: clock.clock,
            send: collector.send
        )
        guard let condition else {
            spans.queue.close()
            return await exporter.run()
        }
        let task = Task { await exporter.run() }
        try await waitUntil { condition() }
        spans.queue.close()
        await task.value
    }

    private func fill(_ spans: SpanCollection, _ count: Int) {
        for _ in 0..<count { spans.queue.append(.sample()) }
    }

    @Test("What does not fit is dropped and counted; what is left is exported in batches")
    func bounded() async throws {
        let spans = SpanCollection(limit: 10, batch: 4)
        fill(spans, 25)
        #expect(spans.account == [0, 15, 0])
        let collector = ScriptedCollector()
        try await run(spans, collector)
        #expect(spans.account == [10, 15, 0])
        #expect(collector.bodies.count == 3)
        #expect(spans.queue.take(all: true).isEmpty)
    }

    @Test("A full batch is exported at once, without waiting for the interval")
    func fullBatch() async throws {
        let spans = SpanCollection(limit: 10, batch: 4)
        let collector = ScriptedCollector()
        fill(spans, 4)
        try await run(spans, collector, until: { spans.account == [4, 0, 0] })
        #expect(collector.bodies.count == 1)
    }

    @Test("429, 502, 503, 504 and a missing answer are tried again with growing waits", .timeLimit(.minutes(5)))
    func retries() async throws {
        let spans = SpanCollection(limit: 10, batch: 4)
        let answers = [429, 502, 503, 504].map { CollectorAnswer(status: $0) } + [nil]
        let collector = ScriptedCollector(answers)
        let clock = ManualClock()
        fill(spans, 4)
        try await run(spans, collector, clock: clock, until: { spans.account == [4, 0, 0] })
        #expect(collector.bodies.count == 6)
        #expect(Set(collector.bodies).count == 1)
        #expect(clock.pauses == [1, 2, 4, 8, 16].map { Duration.seconds($0) })
    }

    @Test("The wait that the collector asks for is kept, whatever our own would be")
    func retryAfter() async throws {
        let spans = SpanCollection(limit: 10, batch: 4)
        let collector = ScriptedCollector([CollectorAnswer(status: 503, retryAfter: .seconds(37))])
        let clock = ManualClock()
        fill(spans, 4)
        try await run(spans, collector, clock: clock, until: { spans.account == [4, 0, 0] })
        #expect(clock.pauses == [.seconds(37)])
    }

    @Test("A wait beyond our patience gives the batch up, and the next one waits for as long as that")
    func longWait() async throws {
        let spans = SpanCollection(limit: 10, batch: 4)
        let collector = ScriptedCollector([CollectorAnswer(status: 429, retryAfter: .seconds(86_400))])
        let clock = ManualClock()
        fill(spans, 8)
        try await run(spans, collector, clock: clock, until: { spans.account == [4, 0, 4] })
        #expect(clock.pauses == [SpanExporter.patience])
    }

    @Test("What the collector refuses is given up at once; what it refuses in part is counted")
    func refused() async throws {
        let spans = SpanCollection(limit: 10, batch: 4)
        // partial_success {rejected_spans: 3, error_message: "no"}
        let partial = CollectorAnswer(status: 200, body: [0x0A, 6, 0x08, 3, 0x12, 2, 0x6E, 0x6F])
        let collector = ScriptedCollector([CollectorAnswer(status: 400), partial])
        let clock = ManualClock()
        fill(spans, 8)
        try await run(spans, collector, clock: clock, until: { spans.account == [1, 0, 7] })
        #expect(collector.bodies.count == 2)
        #expect(clock.pauses.isEmpty)
    }

    @Test("A collector that is away is logged once a minute, and its return once; no line holds a header")
    func logged() async throws {
        let spans = SpanCollection(limit: 10, batch: 4)
        let collector = ScriptedCollector([nil, nil, nil, nil])
        let (logger, output) = memoryLogger()
        fill(spans, 4)
        try await run(spans, collector, logger: logger, until: { spans.account == [4, 0, 0] })
        let lines = output.lines.joined()
        #expect(lines.ranges(of: "tracing.export_failed").count == 1)
        #expect(lines.ranges(of: "tracing.export_recovered").count == 1)
    }

    @Test("At the end each batch is sent once; where the collector is away, the rest is given up without a wait")
    func shutdown() async throws {
        let spans = SpanCollection(limit: 10, batch: 2)
        let clock = ManualClock()
        fill(spans, 6)
        let collector = ScriptedCollector([CollectorAnswer(status: 200), nil])
        try await run(spans, collector, clock: clock)
        #expect(collector.bodies.count == 2)
        #expect(spans.account == [2, 0, 4])
        #expect(clock.pauses.isEmpty)
    }

    @Test("An answer in any bytes is read without a trap")
    func rubbishAnswers() {
        #expect(TraceRequest.rejected([]) == 0)
        #expect(TraceRequest.rejected([0x0A, 4, 0x08, 0xAC, 0x02]) == 0)
        #expect(TraceRequest.rejected([0x0A, 3, 0x08, 0xAC, 0x02]) == 300)
        for byte in UInt8.min...UInt8.max {
            for length in 0..<12 { _ = TraceRequest.rejected(Array(repeating: byte, count: length)) }
        }
    }
}
