import NIOCore
import Postgres
import Querying
import Synchronization
import Vocabulary

/// One follower of the database for every stream that wants the same rows read.
///
/// Whoever of the streams comes first after the interval polls for all of them, in its own task; the others find the batch
/// in a ring. A stream holds a number, and while it writes one batch: one that reads too slowly finds its next batch gone,
/// and is told so.
final class MessageFeed: Sendable {
    /// After so many failures in a row the streams end: who connects again is told what is wrong.
    private static let failureLimit = 10
    /// The bytes of events that are kept for streams that are a little behind.
    private static let ringBytes = 2 << 20
    /// The bytes of one batch, beyond which another begins.
    private static let batchBytes = 256 << 10

    /// What is read.
    let filter: MessageFilter

    private let reader: ReadPool
    private let showsPayloads: Bool
    /// How often the database is asked.
    private let interval: Duration
    private let follower = Follower()
    private let state = Mutex(State())

    /// The follower; used by whoever holds the turn to poll.
    private final class Follower: @unchecked Sendable {
        var tail: MessageTail?
    }

    private struct State {
        var ring: [FeedBatch] = []
        /// The number of the ring's first batch.
        var first = 0
        var bytes = 0
        /// Who is told of new batches, by number.
        var listeners: [Int: AsyncStream<Void>.Continuation] = [:]
        var lastListener = 0
        var isPolling = false
        var hasStarted = false
        /// Polls that failed since one that did not.
        var failures = 0
        var due = ContinuousClock.now
        /// Where a stream that begins now could be resumed.
        var position: TailPosition?
    }

    init(_ filter: MessageFilter, reader: ReadPool, showsPayloads: Bool, interval: Duration = .seconds(1)) {
        (self.filter, self.reader, self.showsPayloads, self.interval) = (filter, reader, showsPayloads, interval)
    }

    // MARK: Streams

    /// A place in the feed; gives it up when nobody holds it any more.
    final class Subscription: Sendable {
        /// Names the listener.
        let number: Int
        /// The number of the batch that comes first.
        let first: Int
        /// Says that there may be something new; ends when the stream is to end.
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

        /// Whether the stream is to end.
        var hasEnded: Bool { isOver.load(ordering: .relaxed) }

        /// Wakes the stream.
        func wake() { signal.yield() }

        /// Ends the stream.
        func end() {
            isOver.store(true, ordering: .relaxed)
            signal.finish()
        }
    }

    /// What a stream finds.
    enum Found: Sendable {
        /// The batch, and the number after it.
        case batch(FeedBatch, next: Int)
        /// Nothing yet.
        case nothing
        /// It was too slow: batches that it has not seen are gone.
        case behind
    }

    /// Whether nobody follows.
    var isIdle: Bool { state.withLock { $0.listeners.isEmpty } }

    /// Where a stream that begins now could be resumed, and the number of the batch that it goes on with: taken together, so
    /// that no batch in between is sent behind a position that covers it.
    var present: (position: TailPosition?, end: Int) {
        state.withLock { ($0.position, $0.first + $0.ring.count) }
    }

    /// The number of the batch that will be published next.
    var end: Int { state.withLock { $0.first + $0.ring.count } }

    /// Begins to follow: with the first batch that is published from now on.
    ///
    /// - Parameter release: Is called when the subscription is gone.
    /// - Returns: The place, which is given up with its last reference.
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

    /// Ends a subscription; with the last one everything that was kept goes.
    private func unsubscribe(_ number: Int) {
        state.withLock { state in
            state.listeners[number] = nil
            guard state.listeners.isEmpty else { return }
            state.first += state.ring.count
            (state.ring, state.bytes) = ([], 0)
            if !state.isPolling { forget(&state) }
        }
    }

    /// What is there under a batch's number: one at a time, so that a stream that waits for its client keeps no more.
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
    /// - Throws: ``PostgresError``, where this stream was to begin and could not.
    func start() async throws {
        while !state.withLock({ $0.hasStarted }) {
            if take(ifDue: false) { try await poll() } else { try await Task.sleep(for: .milliseconds(20)) }
        }
    }

    /// Polls in this stream's turn until the task is cancelled.
    ///
    /// A database that is away for a moment is asked again each second: what committed meanwhile is shown afterwards.
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
            // What everybody follows is the console's own, not the share of the stream whose turn it is.
            let reader = filter.clauses.isEmpty ? "" : ReadPool.reader
            try await ReadPool.$reader.withValue(reader) { try await read() }
        } catch let error as PostgresError {
            // A poll that ends with its stream says nothing of the database.
            if !Task.isCancelled { state.withLock { fail(&$0) } }
            throw error
        }
        state.withLock { state in
            (state.hasStarted, state.failures) = (true, 0)
            state.position = follower.tail?.position
        }
    }

    /// Counts a failure; ends every stream when there were too many, as if nobody had followed.
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
            // The first poll as well belongs to the start: a stream of a query that always fails does not begin.
            var tail: MessageTail
            if let known = follower.tail {
                tail = known
            } else {
                tail = try await MessageTail(filter, overlap: .seconds(60), connection)
            }
            // Nobody else has it meanwhile, so that nothing of it is copied.
            follower.tail = nil
            defer { follower.tail = tail }
            var lines = MessageLines(.ndjson, tokens: false, payloads: showsPayloads)
            var batch = FeedBatch()
            // Also if the poll fails: what was shown is not shown again.
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
