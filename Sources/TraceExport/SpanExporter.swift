package import Logging
package import Telemetry
package import Vocabulary

package struct CollectorAnswer: Sendable {
    package var status: Int
    package var retryAfter: Duration?
    /// `ExportTraceServiceResponse`, if the status is 200.
    package var body: [UInt8] = []
}

/// Why a request got no answer, or can't be made; the text names no header.
package struct CollectorFailure: Error, Sendable {
    package var text: String

    package init(_ text: String) { self.text = text }
}

/// Sends spans to a collector in the background, by OTLP/HTTP (https://opentelemetry.io/docs/specs/otlp/).
///
/// One request at a time. A collector that is away or overloaded is retried with growing waits, or after the wait it
/// requests (``patience`` at most); spans not accepted within ``patience`` are given up and counted. Only the queued
/// spans wait for it.
package struct SpanExporter: Sendable {
    /// How long spans wait for others to be sent with.
    package static let interval = Duration.seconds(5)
    package static let patience = Duration.seconds(60)
    package static let retry = Backoff(initial: .seconds(1), maximum: .seconds(30), minimum: .milliseconds(100))
    private static let logInterval = Duration.seconds(60)

    private let queue: SpanQueue
    private let request: TraceRequest
    private let counts: CounterFamily<SpanOutcome>
    private let logger: Logger
    private let clock: TimeSource
    private let send: @Sendable ([UInt8]) async throws -> CollectorAnswer

    private struct Memory {
        /// The end of the wait that the back-off or the collector sets.
        var notBefore: ContinuousClock.Instant?
        /// Spans given up since the collector last accepted some.
        var failed = 0
        /// When the present failure was logged; nil while there is none.
        var loggedAt: ContinuousClock.Instant?
    }

    /// An exporter of this queue; `send` posts a body, and throws ``CollectorFailure`` or `CancellationError`.
    package init(
        queue: SpanQueue,
        request: TraceRequest,
        counts: CounterFamily<SpanOutcome>,
        logger: Logger,
        clock: TimeSource = .system,
        send: @escaping @Sendable ([UInt8]) async throws -> CollectorAnswer
    ) {
        (self.queue, self.request, self.counts) = (queue, request, counts)
        (self.logger, self.clock, self.send) = (logger, clock, send)
    }

    /// Runs until cancelled, or until the queue is closed and each batch left was sent once, up to the first failure.
    package func run() async {
        var memory = Memory()
        while !Task.isCancelled {
            await waitUntil(memory.notBefore)
            let isLast = queue.isClosed
            let spans = queue.take()
            if spans.isEmpty {
                if isLast { return }
                await wait(Self.interval, forBatch: true)
            } else if await !export(spans, &memory), isLast {
                break
            }
        }
        counts[.failed].increment(by: queue.take(all: true).count)
    }

    private func waitUntil(_ instant: ContinuousClock.Instant?) async {
        guard let instant, instant > clock.now() else { return }
        await wait(clock.now().duration(to: instant))
    }

    /// Waits that long, or until the queue is closed or, if asked for, holds a batch.
    private func wait(_ time: Duration, forBatch: Bool = false) async {
        await withTaskGroup(of: Void.self) { tasks in
            tasks.addTask { [clock] in try? await clock.sleep(time) }
            tasks.addTask { [queue] in await queue.waitUntilClosed(orBatch: forBatch) }
            await tasks.next()
            tasks.cancelAll()
        }
    }

    /// Sends a batch until it is accepted (true) or given up (false).
    private func export(_ spans: [FinishedSpan], _ memory: inout Memory) async -> Bool {
        let body = request.body(spans)
        let begun = clock.now()
        var attempt = 0
        while true {
            let failure: (text: String, isRetryable: Bool, wait: Duration?)
            do {
                let answer = try await send(body)
                if (200..<300).contains(answer.status) {
                    took(spans.count, refused: TraceRequest.rejected(answer.body), &memory)
                    return true
                }
                // The retryable statuses of OTLP.
                let isRetryable = [429, 502, 503, 504].contains(answer.status)
                failure = ("the collector answered \(answer.status)", isRetryable, answer.retryAfter)
            } catch let error as CollectorFailure {
                failure = (error.text, true, nil)
            } catch {
                failure = ("\(type(of: error))", !(error is CancellationError), nil)
            }
            attempt += 1
            let wait = failure.wait ?? Self.retry.delay(attempt: attempt, random: clock.random())
            // A collector that asks for a day must not stop tracing for a day.
            if failure.isRetryable { memory.notBefore = clock.now() + min(wait, Self.patience) }
            let elapsed = begun.duration(to: clock.now())
            let isGivenUp = !failure.isRetryable || queue.isClosed || Task.isCancelled || elapsed + wait > Self.patience
            if isGivenUp {
                counts[.failed].increment(by: spans.count)
                memory.failed += spans.count
            }
            log(failure.text, &memory)
            if isGivenUp { return false }
            await waitUntil(memory.notBefore)
        }
    }

    private func took(_ count: Int, refused: Int, _ memory: inout Memory) {
        let refused = min(max(refused, 0), count)
        counts[.exported].increment(by: count - refused)
        counts[.failed].increment(by: refused)
        memory.notBefore = nil
        if refused > 0 {
            memory.failed += refused
            return log("the collector refused some spans", &memory)
        }
        guard memory.loggedAt != nil else { return }
        let fields: LogFields = [.count: .int(memory.failed)]
        memory = Memory()
        logger.event(.notice, .tracingRecovered, "the collector takes spans again; some may have been given up", fields)
    }

    private func log(_ text: String, _ memory: inout Memory) {
        let now = clock.now()
        if let last = memory.loggedAt, last.duration(to: now) < Self.logInterval { return }
        memory.loggedAt = now
        logger.event(
            .warning,
            .tracingFailed,
            "cannot export spans to tracing.endpoint; messages are not affected",
            [.count: .int(memory.failed), .error: .string(text)]
        )
    }
}
