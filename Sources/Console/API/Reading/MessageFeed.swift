import NIOCore
import Postgres
import Querying
import Synchronization

/// Follows the database for all streams that need the same rows.
///
/// The first stream to wake after the interval polls for all of them, in its own task; the others take the batch from a
/// ring. A stream holds a number, and one batch while it writes: one that reads too slowly finds its next batch gone,
/// and is told so.
final class MessageFeed: Sendable {
    /// The failures in a row that end the streams: a client that reconnects learns what is wrong.
    private static let failureLimit = 10
    /// Bytes of events kept for streams that lag.
    private static let ringBytes = 2 << 20
    /// Bytes after which a new batch begins.
    private static let batchBytes = 256 << 10

    let filter: MessageFilter

    private let reader: ConsoleReader
    private let showsPayloads: Bool
    private let interval: Duration
    private let follower = Follower()
    private let state = Mutex(State())

    /// The follower; used only by the task that polls.
    private final class Follower: @unchecked Sendable {
        var tail: MessageTail?
    }

    private struct State {
        var ring: [FeedBatch] = []
        /// The number of the ring's first batch.
        var first = 0
        var bytes = 0
        /// The listeners for new batches, by number.
        var listeners: [Int: AsyncStream<Void>.Continuation] = [:]
        var lastListener = 0
        var isPolling = false
        var hasStarted = false
        var failures = 0
        var due = ContinuousClock.now
        /// Where a stream that begins now could be resumed.
        var position: TailPosition?
    }

    init(_ filter: MessageFilter, reader: ConsoleReader, showsPayloads: Bool, interval: Duration = .seconds(1)) {
        (self.filter, self.reader, self.showsPayloads, self.interval) = (filter, reader, showsPayloads, interval)
    }

    // MARK: Streams

    /// A stream's place in the feed, given up with its last reference.
    final class Subscription: Sendable {
        let number: Int
        /// The number of its first batch.
        let first: Int
        /// Signals that there may be a batch; ends when the stream is to end.
        let signals: AsyncStream<Void>
        private let signal: AsyncStream<Void>.Continuation
        private let isOver = Atomic(false)
        private let release: @Sendable () -> Void

        fileprivate init(
            _ number: Int,
            first: Int,
            _ signals: (AsyncStream<Void>, AsyncStream<Void>.Continuation),
            release: @escaping @Sendable () -> Void
        ) {
            (self.number, self.first, self.release) = (number, first, release)
            (self.signals, signal) = signals
        }

        deinit {
            signal.finish()
            release()
        }

        var hasEnded: Bool { isOver.load(ordering: .relaxed) }

        func wake() { signal.yield() }

        func end() {
            isOver.store(true, ordering: .relaxed)
            signal.finish()
        }
    }

    enum Found: Sendable {
        /// The batch and the next number.
        case batch(FeedBatch, next: Int)
        case nothing
        /// Gone: the stream was too slow.
        case behind
    }

    var isIdle: Bool { state.withLock { $0.listeners.isEmpty } }

    /// Where a stream that begins now could be resumed, and the number of its next batch; read together, so that no
    /// batch is sent after a position that covers it.
    var present: (position: TailPosition?, end: Int) {
        state.withLock { ($0.position, $0.first + $0.ring.count) }
    }

    var end: Int { state.withLock { $0.first + $0.ring.count } }

    /// Subscribes, beginning with the next batch.
    func subscribe(release: @escaping @Sendable () -> Void) -> Subscription {
        let stream = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        return state.withLock { state in
            state.lastListener += 1
            let number = state.lastListener
            state.listeners[number] = stream.continuation
            return Subscription(number, first: state.first + state.ring.count, (stream.stream, stream.continuation)) {
                self.unsubscribe(number)
                release()
            }
        }
    }

    /// Ends a subscription; the last one drops the ring.
    private func unsubscribe(_ number: Int) {
        state.withLock { state in
            state.listeners[number] = nil
            guard state.listeners.isEmpty else { return }
            state.first += state.ring.count
            (state.ring, state.bytes) = ([], 0)
            if !state.isPolling { forget(&state) }
        }
    }

    /// Looks for one batch: a stream that waits for its client keeps no more than that.
    func look(from next: Int) -> Found {
        state.withLock { state in
            guard next >= state.first else { return .behind }
            let index = next - state.first
            return index < state.ring.count ? .batch(state.ring[index], next: next + 1) : .nothing
        }
    }

    // MARK: Polling

    /// Waits until the feed follows the database.
    ///
    /// - Throws: ``PostgresError`` if this stream polled first and failed.
    func start() async throws {
        while !state.withLock({ $0.hasStarted }) {
            if take(ifDue: false) { try await poll() } else { try await Task.sleep(for: .milliseconds(20)) }
        }
    }

    /// Polls whenever it is this stream's turn, until the task is cancelled.
    ///
    /// After a failure the next poll shows what was committed meanwhile.
    func drive() async throws {
        while !Task.isCancelled {
            try await Task.sleep(until: state.withLock { max($0.due, .now + .milliseconds(20)) }, clock: .continuous)
            guard take(ifDue: true) else { continue }
            do { try await poll() } catch is PostgresError {}
        }
    }

    private func take(ifDue: Bool) -> Bool {
        state.withLock { state in
            guard !state.isPolling, !ifDue || state.due <= .now else { return false }
            state.isPolling = true
            state.due = .now + interval
            return true
        }
    }

    private func poll() async throws {
        defer {
            state.withLock { state in
                state.isPolling = false
                if state.listeners.isEmpty { forget(&state) }
            }
        }
        do {
            // The feed without `where` counts as the console's own, not towards the share of the stream that polls.
            let reader = filter.clauses.isEmpty ? "" : ReadPool.reader
            try await ReadPool.$reader.withValue(reader) { try await read() }
        } catch let error as PostgresError {
            // A poll that is cancelled with its stream says nothing about the database.
            guard !Task.isCancelled else { throw error }
            var batch = FeedBatch()
            batch.isStale = true
            publish(batch)
            state.withLock { fail(&$0) }
            throw error
        }
        state.withLock { state in
            (state.hasStarted, state.failures) = (true, 0)
            state.position = follower.tail?.position
        }
    }

    /// Counts a failure; too many end every stream and reset the feed.
    private func fail(_ state: inout State) {
        state.failures += 1
        guard state.failures >= Self.failureLimit else { return }
        state.failures = 0
        for listener in state.listeners.values { listener.finish() }
        forget(&state)
    }

    private func read() async throws {
        let (filter, showsPayloads, follower) = (filter, showsPayloads, follower)
        try await reader.withConnection(filter.clauses.isEmpty ? .look : .search) { connection in
            // The first poll is part of starting: a stream whose query always fails does not begin.
            var tail: MessageTail
            if let known = follower.tail {
                tail = known
            } else {
                tail = try await MessageTail(filter, overlap: .seconds(60), connection)
            }
            // Gives up the other reference, so that nothing is copied.
            follower.tail = nil
            defer { follower.tail = tail }
            var lines = MessageLines(.ndjson, tokens: false, payloads: showsPayloads)
            var batch = FeedBatch()
            // Also if the poll fails: rows already read are not read again.
            defer { self.publish(batch) }
            batch.gap = try await tail.poll(connection) { page, row in
                batch.append(page, row, &lines)
                guard batch.text.readableBytes >= Self.batchBytes else { return }
                self.publish(batch)
                batch = FeedBatch()
            }
            batch.position = tail.position
        }
    }

    private func publish(_ batch: FeedBatch) {
        state.withLock { state in
            var batch = batch
            if batch.position == state.position { batch.position = nil }
            state.position = batch.position ?? state.position
            guard !batch.isEmpty else { return }
            state.ring.append(batch)
            state.bytes += batch.text.readableBytes
            while state.bytes > Self.ringBytes || state.ring.count > 100, state.ring.count > 1 {
                state.bytes -= state.ring.removeFirst().text.readableBytes
                state.first += 1
            }
            for listener in state.listeners.values { listener.yield() }
        }
    }

    private func forget(_ state: inout State) {
        follower.tail = nil
        state.hasStarted = false
        state.position = nil
    }
}
