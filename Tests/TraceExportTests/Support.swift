import IntegrationSupport
import Logging
import Synchronization
import Telemetry
import Tracing
import Vocabulary

@testable import TraceExport

/// A queue, and the spans that it got.
struct SpanCollection {
    let counts = CounterFamily<SpanOutcome>()
    let queue: SpanQueue

    init(limit: Int = SpanQueue.limit, batch: Int = SpanQueue.batch) {
        queue = SpanQueue(limit: limit, batch: batch, counts: counts)
    }

    func tracer(ratio: Double = 1) -> SpanTracer { SpanTracer(sampler: TraceSampler(ratio: ratio), queue: queue) }

    /// What was exported, dropped and failed.
    var account: [UInt64] { SpanOutcome.allCases.map { counts[$0].value } }
}

extension FinishedSpan {
    /// A span of no importance.
    static func sample(_ name: String = "a span") -> FinishedSpan {
        FinishedSpan(
            context: TraceContext(trace: Digest128(high: 1, low: 2), span: 3, isSampled: true),
            name: name,
            kind: .internal,
            start: 1_700_000_000_000_000_000,
            end: 1_700_000_000_000_000_001
        )
    }

    /// The text of an attribute.
    func text(_ name: SpanAttributeName) -> String? {
        guard case .string(let text)? = attributes.get(name.rawValue) else { return nil }
        return text
    }
}

/// A clock that only pauses move; it notes them.
final class ManualClock: Sendable {
    private let state = Mutex((now: ContinuousClock.now, pauses: [Duration]()))

    var pauses: [Duration] { state.withLock { $0.pauses } }

    /// Pauses of the exporter's own interval wait for the queue instead.
    var clock: TimeSource {
        TimeSource(
            now: { self.state.withLock { $0.now } },
            sleep: { duration in
                if duration == SpanExporter.interval { return try await Task.sleep(for: .seconds(3600)) }
                self.state.withLock { $0 = ($0.now + duration, $0.pauses + [duration]) }
            },
            random: { 1 }
        )
    }
}

/// A collector that gives the answers it was told to, and then takes everything.
final class ScriptedCollector: Sendable {
    private let state: Mutex<(answers: [CollectorAnswer?], bodies: [[UInt8]])>

    /// - Parameter answers: In their order; nil for no answer at all.
    init(_ answers: [CollectorAnswer?] = []) { state = Mutex((answers: answers, bodies: [])) }

    var bodies: [[UInt8]] { state.withLock { $0.bodies } }

    @Sendable func send(_ body: [UInt8]) throws -> CollectorAnswer {
        let answer = state.withLock { state -> CollectorAnswer? in
            state.bodies.append(body)
            return state.answers.isEmpty ? CollectorAnswer(status: 200) : state.answers.removeFirst()
        }
        guard let answer else { throw CollectorFailure("nobody is there") }
        return answer
    }
}

/// A logger whose lines can be looked at.
func memoryLogger() -> (Logger, MemoryLogOutput) {
    let output = MemoryLogOutput()
    let logger = Logger(label: "test") { LineLogHandler(label: $0, level: .trace, format: .json, output: output) }
    return (logger, output)
}
