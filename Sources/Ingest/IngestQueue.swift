import Synchronization
package import Vocabulary

/// Messages that connections have read and no writer has taken yet.
///
/// The connections' in-flight limits bound its size. Batching is natural: while a writer is busy, messages collect, and
/// when it is free it takes all of them up to the limits.
///
/// All writers share one queue. A device is pinned to a writer while a message of it is in that writer's batch; its
/// later messages are held back until the batch is done. So no two concurrent transactions hold messages of one device,
/// and a device's messages become visible in order of arrival, as `ordering: device` promises. A writer that hangs
/// holds back only its batch and its devices: the others take the rest.
///
/// To keep batches large, a second writer begins only when as much waits as the first one's batch holds, or when that
/// batch is overdue.
package final class IngestQueue: Sendable {
    /// The least number of waiting messages for which a second writer begins.
    private static let leastShare = 64
    /// How often batches under way are checked while messages wait.
    static let watchInterval = Duration.milliseconds(20)
    /// A commit is overdue after twice its usual time, within these bounds.
    private static let overdue = Duration.milliseconds(20)...Duration.milliseconds(200)

    private struct Writer {
        var waiter: Promise<Void>?
        /// The messages in its current batch; 0 without one.
        var count = 0
        /// When it took the batch, and when the batch's first message was submitted.
        var taken: ContinuousClock.Instant
        var since: ContinuousClock.Instant
        /// Whether its batch takes so long that other writers no longer wait for it.
        var isOverdue = false
        var pins = DevicePins()
        /// Messages held back for its devices, oldest first.
        var held: [IngestBatch] = []
    }

    private struct State {
        /// Batches to be taken, oldest first: all but the last are full, or were held back.
        var batches: [IngestBatch] = []
        var waiting = 0
        /// The size of the batch taken last: the next one's expected capacity.
        var usual = 0
        var usualTime = Duration.zero
        var writers: [Writer]
        var watcher: Promise<Void>?
        var isFinished = false
    }

    private let batchLimit: Int
    private let byteLimit: Int
    private let clock: TimeSource
    private let state: Mutex<State>

    /// An empty queue for writers numbered from 0; a message of more than `byteLimit` bytes is its own batch.
    package init(
        writers: Int = 1,
        batchLimit: Int = 500,
        byteLimit: Int = 4 << 20,
        clock: TimeSource = .system
    ) {
        self.clock = clock
        self.batchLimit = max(1, batchLimit)
        self.byteLimit = max(1, byteLimit)
        let now = clock.now()
        state = Mutex(State(writers: (0..<max(1, writers)).map { _ in Writer(taken: now, since: now) }))
    }

    /// Makes room for this many writers, before they begin.
    func prepare(writers: Int) {
        let now = clock.now()
        state.withLock { state in
            while state.writers.count < writers { state.writers.append(Writer(taken: now, since: now)) }
        }
    }

    package var mostBytes: Int { byteLimit }

    /// When the oldest unsettled message was submitted; nil without one.
    package var oldest: ContinuousClock.Instant? {
        state.withLock { state in
            var oldest = state.batches.map(\.since).min()
            for writer in state.writers {
                let own = (writer.count > 0 ? [writer.since] : []) + writer.held.map(\.since)
                oldest = ([oldest].compactMap(\.self) + own).min()
            }
            return oldest
        }
    }

    /// Adds the messages of one socket read; never blocks.
    package func submit(_ messages: [IncomingMessage], from sink: any AckSink) {
        let now = clock.now()
        change { append(messages, from: sink, now, &$0) }
    }

    /// Changes the state, then wakes who may go on.
    private func change<T: Sendable>(_ body: (inout State) -> T) -> T {
        let (result, woken) = state.withLock { state in (body(&state), wake(&state)) }
        woken?.fulfil()
        return result
    }

    private func append(
        _ messages: [IncomingMessage],
        from sink: any AckSink,
        _ now: ContinuousClock.Instant,
        _ state: inout State
    ) {
        var next = 0
        while next < messages.count {
            if let last = state.batches.indices.last {
                next = state.batches[last]
                    .append(messages, from: next, of: sink, upTo: batchLimit, bytes: byteLimit)
            }
            if next < messages.count { state.batches.append(IngestBatch(capacity: state.usual, since: now)) }
        }
        state.waiting += messages.count
    }

    /// A writer's next batch, once its previous one is settled or abandoned; nil if it may take nothing now.
    package func take(writer: Int = 0) -> IngestBatch? {
        let now = clock.now()
        return change { state in
            release(writer, now, &state)
            return take(writer, now, &state)
        }
    }

    /// Waits for a writer's next batch, once its last is settled; nil once the queue is finished and nothing is left
    /// for it.
    package func next(writer: Int = 0) async -> IngestBatch? {
        while true {
            if let batch = take(writer: writer) { return batch }
            if isDone { return nil }
            await park(writer)
        }
    }

    /// Announces that nothing more will be submitted; writers end once they have taken the rest.
    package func finish() {
        let waiters = state.withLock { state in
            state.isFinished = true
            return state.writers.indices.compactMap { state.writers[$0].waiter.take() }
        }
        for waiter in waiters { waiter.fulfil() }
    }

    /// Removes a writer that takes no more batches, releasing what was held back for it.
    package func leave(writer: Int) {
        let now = clock.now()
        change { release(writer, now, &$0) }
    }

    private var isDone: Bool {
        state.withLock { state in
            state.isFinished && state.batches.isEmpty && state.writers.allSatisfy(\.held.isEmpty)
        }
    }

    private func park(_ writer: Int) async {
        let promise = Promise<Void>()
        let (waits, watcher) = state.withLock { state -> (Bool, Promise<Void>?) in
            if isWorthwhile(state) { return (false, nil) }
            if state.isFinished, state.writers.allSatisfy(\.held.isEmpty) { return (false, nil) }
            state.writers[writer].waiter = promise
            // Another writer takes what waits, unless its batch becomes overdue.
            return (true, state.waiting > 0 ? state.watcher.take() : nil)
        }
        watcher?.fulfil()
        if waits { await promise.wait() }
    }

    // MARK: Under the lock

    /// Whether a free writer should begin now.
    private func isWorthwhile(_ state: State) -> Bool {
        guard state.waiting > 0 else { return false }
        guard !state.isFinished, state.batches.count == 1 else { return true }
        var largest = 0
        for index in state.writers.indices where !state.writers[index].isOverdue {
            largest = max(largest, state.writers[index].count)
        }
        return largest == 0 || state.waiting >= min(batchLimit, max(Self.leastShare, largest))
    }

    /// The task to wake after a change, once the lock is released: a free writer, or the watcher while one waits for an
    /// overdue batch.
    private func wake(_ state: inout State) -> Promise<Void>? {
        guard state.waiting > 0 || state.isFinished else { return nil }
        guard let free = state.writers.firstIndex(where: { $0.waiter != nil }) else { return nil }
        let isDone = state.isFinished && state.writers.allSatisfy(\.held.isEmpty)
        if isDone || isWorthwhile(state) { return state.writers[free].waiter.take() }
        return state.waiting > 0 ? state.watcher.take() : nil
    }

    private func release(_ index: Int, _ now: ContinuousClock.Instant, _ state: inout State) {
        guard state.writers[index].count > 0 else { return }
        let time = now - state.writers[index].taken
        state.usualTime = (state.usualTime * 7 + min(time, Self.overdue.upperBound)) / 8
        state.writers[index].count = 0
        state.writers[index].isOverdue = false
        state.writers[index].pins.clear()
        guard !state.writers[index].held.isEmpty else { return }
        let held = state.writers[index].held
        state.writers[index].held = []
        state.waiting += held.reduce(0) { $0 + $1.messages.count }
        // Ahead of later arrivals.
        state.batches.insert(contentsOf: held, at: 0)
    }

    private func take(_ index: Int, _ now: ContinuousClock.Instant, _ state: inout State) -> IngestBatch? {
        guard isWorthwhile(state) else { return nil }
        while !state.batches.isEmpty {
            var batch = state.batches.removeFirst()
            state.waiting -= batch.messages.count
            for other in state.writers.indices where other != index && state.writers[other].count > 0 {
                hold(&batch, for: other, &state)
            }
            guard !batch.messages.isEmpty else { continue }
            state.usual = batch.messages.count
            state.writers[index].count = batch.messages.count
            state.writers[index].taken = now
            state.writers[index].since = batch.since
            if state.writers.count > 1 { state.writers[index].pins.pin(batch.messages) }
            return batch
        }
        return nil
    }

    /// Holds back the messages of a writer's pinned devices.
    private func hold(_ batch: inout IngestBatch, for other: Int, _ state: inout State) {
        guard let held = batch.extract(state.writers[other].pins) else { return }
        // Merged into few batches, as this may happen often before the writer is done.
        if let last = state.writers[other].held.indices.last,
            state.writers[other].held[last].messages.count + held.messages.count <= batchLimit,
            state.writers[other].held[last].bytes + held.bytes <= byteLimit
        {
            state.writers[other].held[last].append(held)
        } else {
            state.writers[other].held.append(held)
        }
    }
}

// Detection of overdue batches.
extension IngestQueue {
    /// Marks overdue batches until cancelled, so that other writers do not wait for them; sleeps while nothing waits.
    func watch() async {
        while !Task.isCancelled {
            await waitUntilNeeded()
            guard (try? await clock.sleep(Self.watchInterval)) != nil else { return }
            lookForOverdue(clock.now())
        }
    }

    /// Marks the batches that are overdue; a free writer then takes what waits.
    func lookForOverdue(_ now: ContinuousClock.Instant) {
        change { state in
            let usual = min(max(state.usualTime * 2, Self.overdue.lowerBound), Self.overdue.upperBound)
            for index in state.writers.indices
            where state.writers[index].count > 0 && now - state.writers[index].taken > usual {
                state.writers[index].isOverdue = true
            }
        }
    }

    private func waitUntilNeeded() async {
        let promise = Promise<Void>()
        let isNeeded = state.withLock { state in
            if state.waiting > 0, state.writers.contains(where: { $0.waiter != nil }) { return true }
            state.watcher = promise
            return false
        }
        if !isNeeded { await promise.waitUnlessCancelled() }
    }
}
