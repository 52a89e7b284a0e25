import Synchronization
package import Telemetry

/// Spans that have ended and wait to be exported: at most ``limit``, so that a collector that is away costs no memory.
///
/// Where it is full, spans are dropped and counted. Adding never blocks.
package final class SpanQueue: Sendable {
    /// The most spans that wait.
    package static let limit = 4096
    /// The most spans of one request.
    package static let batch = 512

    private struct State {
        var spans: [FinishedSpan] = []
        var waiter: CheckedContinuation<Void, Never>?
        /// Whether a full batch is enough to wake the waiter.
        var waitsForBatch = false
        /// Nothing is waited for any more.
        var isClosed = false
    }

    private let limit: Int
    private let batch: Int
    private let state = Mutex(State())
    private let counts: CounterFamily<SpanOutcome>

    /// An empty queue.
    ///
    /// - Parameters:
    ///   - limit: The most spans that wait.
    ///   - batch: How many of them are exported at once.
    ///   - counts: Where spans are counted.
    package init(limit: Int = SpanQueue.limit, batch: Int = SpanQueue.batch, counts: CounterFamily<SpanOutcome>) {
        self.limit = limit
        self.batch = batch
        self.counts = counts
    }

    /// Adds a span, or drops it where there is no room.
    package func append(_ span: FinishedSpan) {
        let (isTaken, waiter) = state.withLock { state in
            guard state.spans.count < limit else { return (false, nil as CheckedContinuation<Void, Never>?) }
            state.spans.append(span)
            let isFull = state.waitsForBatch && state.spans.count >= batch
            return (true, isFull ? state.waiter.take() : nil)
        }
        if !isTaken { counts[.dropped].increment() }
        waiter?.resume()
    }

    /// The oldest of them, at most a batch.
    ///
    /// - Parameter all: Whether to take all instead.
    /// - Returns: In the order of their ends.
    package func take(all: Bool = false) -> [FinishedSpan] {
        state.withLock { state in
            guard !all, state.spans.count > batch else {
                defer { state.spans = [] }
                return state.spans
            }
            let taken = Array(state.spans.prefix(batch))
            state.spans.removeFirst(batch)
            return taken
        }
    }

    /// How many wait.
    package var count: Int { state.withLock { $0.spans.count } }

    /// Returns when a batch is full, when the queue has been closed, or when cancelled; for one task.
    package func waitForBatch() async { await wait(forBatch: true) }

    /// Returns when the queue has been closed, or when cancelled; for one task.
    package func waitUntilClosed() async { await wait(forBatch: false) }

    private func wait(forBatch: Bool) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    if state.isClosed || Task.isCancelled || (forBatch && state.spans.count >= batch) { return true }
                    state.waiter = continuation
                    state.waitsForBatch = forBatch
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            wake()
        }
    }

    /// Nothing more is waited for: what is there is to be exported now.
    package func close() {
        state.withLock { $0.isClosed = true }
        wake()
    }

    /// Whether it has been closed.
    package var isClosed: Bool { state.withLock { $0.isClosed } }

    private func wake() {
        let waiter = state.withLock { $0.waiter.take() }
        waiter?.resume()
    }
}
