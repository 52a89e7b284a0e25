import Synchronization
package import Telemetry
import Vocabulary

/// Ended spans that wait to be exported: at most ``limit``; further ones are dropped and counted.
package final class SpanQueue: Sendable {
    package static let limit = 4096
    /// The most spans of one request.
    package static let batch = 512

    private struct State {
        var spans: [FinishedSpan] = []
        var waiter: Promise<Void>?
        var waitsForBatch = false
        var isClosed = false
    }

    private let limit: Int
    private let batch: Int
    private let state = Mutex(State())
    private let counts: CounterFamily<SpanOutcome>

    /// An empty queue for at most `limit` spans, of which `batch` are exported at once.
    package init(limit: Int = SpanQueue.limit, batch: Int = SpanQueue.batch, counts: CounterFamily<SpanOutcome>) {
        (self.limit, self.batch, self.counts) = (limit, batch, counts)
    }

    package func append(_ span: FinishedSpan) {
        let waiter = state.withLock { state -> Promise<Void>? in
            guard state.spans.count < limit else {
                counts[.dropped].increment()
                return nil
            }
            state.spans.append(span)
            let isFull = state.waitsForBatch && state.spans.count >= batch
            return isFull ? state.waiter.take() : nil
        }
        waiter?.fulfil()
    }

    /// Takes the oldest spans in the order of their ends: at most a batch, or all.
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

    /// Returns when the queue is closed or the task is cancelled or, if asked for, a batch is full; for one task.
    package func waitUntilClosed(orBatch forBatch: Bool) async {
        let promise = Promise<Void>()
        let isReady = state.withLock { state in
            if state.isClosed || (forBatch && state.spans.count >= batch) { return true }
            state.waiter = promise
            state.waitsForBatch = forBatch
            return false
        }
        if !isReady { await promise.waitUnlessCancelled() }
    }

    /// Ends all waits, so that the remaining spans are exported now.
    package func close() {
        let waiter = state.withLock { state in
            state.isClosed = true
            return state.waiter.take()
        }
        waiter?.fulfil()
    }

    package var isClosed: Bool { state.withLock { $0.isClosed } }
}
