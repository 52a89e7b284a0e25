import Synchronization
import Vocabulary

/// Writes one handler's settlements to the table, many in one transaction.
///
/// While the database can't commit, they are kept and retried. The backlog is bounded: slots wait for room before they
/// begin another attempt.
final class LaneSettler: Sendable {
    private struct State {
        var pending: [Settlement] = []
        var blocks = DeliveryBlocks()
        /// The settlements to be written; one for each finished delivery in a block.
        var count = 0
        var isUrgent = false
        var isFinished = false
        var waiters: [Promise<Void>] = []
    }

    private let index: Int
    private let handler: String
    private let store: any DeliveryStore
    private let settings: DispatchSettings
    private let clock: TimeSource
    private let report: DispatchReport
    private let willSettle: @Sendable () -> Void
    private let settled: @Sendable () -> Void
    private let state = Mutex(State())
    private let signal = DispatchSignal()
    /// Whether the backlog is at the high-water mark, readable without the lock.
    private let isFull = Atomic<Bool>(false)

    init(
        _ index: Int,
        handler: String,
        store: any DeliveryStore,
        settings: DispatchSettings,
        clock: TimeSource,
        report: DispatchReport,
        willSettle: @escaping @Sendable () -> Void,
        settled: @escaping @Sendable () -> Void
    ) {
        self.index = index
        self.handler = handler
        self.store = store
        self.settings = settings
        self.clock = clock
        self.report = report
        self.willSettle = willSettle
        self.settled = settled
    }

    /// The backlog at which slots wait before another attempt; they resume at half of it.
    private var highWaterMark: Int { settings.settlementLimit * 4 }

    var isEmpty: Bool { state.withLock { $0.count == 0 && $0.blocks.isEmpty } }

    /// Takes settlements; never blocks.
    func submit(_ settlements: some Collection<Settlement>, isUrgent: Bool) {
        change { state in
            for settlement in settlements where !state.blocks.take(settlement) {
                state.pending.append(settlement)
                state.count += 1
            }
            if isUrgent { state.isUrgent = true }
        }
    }

    // MARK: Blocks

    func open(block: Int64, token: Int64, count: Int) {
        let now = clock.now()
        state.withLock { $0.blocks.open(block, token: token, count: count, at: now) }
    }

    func abandon(block: Int64, token: Int64) {
        change { $0.blocks.abandon(block, token: token) }
    }

    func unpackOld() {
        let limit = clock.now() - settings.blockAge
        change { $0.blocks.unpack(openedBefore: limit) }
    }

    /// Changes the state, counts blocks to be settled now, and wakes ``run()`` if there is something new.
    private func change(_ body: (inout State) -> Void) {
        let wakes = state.withLock { state in
            let wasEmpty = state.count == 0
            let before = state.blocks.ready.count
            body(&state)
            state.count += state.blocks.ready[before...].reduce(0) { $0 + $1.weight }
            if state.count >= highWaterMark { isFull.store(true, ordering: .relaxed) }
            return wasEmpty && state.count > 0
        }
        if wakes { signal.set() }
    }

    /// Waits while the backlog is at the high-water mark.
    func waitForRoom() async {
        guard isFull.load(ordering: .relaxed) else { return }
        let promise = Promise<Void>()
        let waits = state.withLock { state in
            guard state.count >= highWaterMark, !state.isFinished else { return false }
            state.waiters.append(promise)
            return true
        }
        if waits { await promise.wait() }
    }

    /// Announces that nothing more will be submitted: ``run()`` ends once all is settled.
    func finish() {
        change { $0.blocks.unpackAll() }
        let waiters = state.withLock { state in
            state.isFinished = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.fulfil() }
        signal.set()
    }

    /// Settles until finished, or until cancelled.
    func run() async {
        // No slot may wait for room any longer.
        defer { finish() }
        while true {
            let (count, isUrgent, isFinished) = state.withLock { ($0.count, $0.isUrgent, $0.isFinished) }
            if count == 0 {
                if isFinished { return }
                guard await signal.wait() else { return }
                continue
            }
            if !isUrgent && !isFinished && count < settings.settlementLimit / 2 {
                guard (try? await clock.sleep(settings.settlementLinger)) != nil else { return }
            }
            guard await settleNext() else { return }
        }
    }

    /// Writes the next settlements; false if cancelled.
    private func settleNext() async -> Bool {
        // Blocks first: what is unpacked may be settled as rows.
        let (blocks, batch) = take()
        if !blocks.isEmpty || !batch.isEmpty { willSettle() }
        let (store, handler) = (store, handler)
        if !blocks.isEmpty {
            let done = blocks.reduce(0) { $0 + $1.done.count }
            guard await settle(done, { () async throws(StoreError) in try await store.settle(blocks, of: handler) })
            else { return false }
            free(blocks.reduce(0) { $0 + $1.weight })
        }
        guard !batch.isEmpty else { return true }
        guard await settle(batch.count, { () async throws(StoreError) in try await store.settle(batch, of: handler) })
        else { return false }
        free(batch.count)
        settled()
        return true
    }

    private func take() -> (blocks: [BlockSettlement], batch: [Settlement]) {
        state.withLock { state in
            state.isUrgent = false
            let blocks = state.blocks.takeReady()
            if state.pending.count <= settings.settlementLimit {
                defer { state.pending = [] }
                return (blocks, state.pending)
            }
            let batch = Array(state.pending.prefix(settings.settlementLimit))
            state.pending.removeFirst(batch.count)
            return (blocks, batch)
        }
    }

    private func free(_ count: Int) {
        let waiters = state.withLock { state in
            state.count -= count
            guard state.count < highWaterMark / 2 else { return [] as [Promise<Void>] }
            isFull.store(false, ordering: .relaxed)
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.fulfil() }
    }

    /// Retries until the settlements are written; false if cancelled.
    private func settle(_ count: Int, _ write: () async throws(StoreError) -> Int) async -> Bool {
        var attempt = 0
        while true {
            do throws(StoreError) {
                let held = try await write()
                if attempt > 0 { report.recovered() }
                if held < count { report.leasesLost(count - held, index) }
                return true
            } catch {
                attempt += 1
                report.storeFailed(error, isFirst: attempt == 1)
                let delay = DispatchReport.retry.delay(attempt: attempt, random: clock.random())
                guard (try? await clock.sleep(delay)) != nil else { return false }
            }
        }
    }
}
