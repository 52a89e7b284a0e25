import Synchronization
import Vocabulary

/// Writes one handler's settlements to the table, many in one transaction.
///
/// While the database can't commit, they are kept and retried. The backlog is bounded: slots wait for room before they
/// begin another attempt.
final class DispatchSettler: Sendable {
    private struct State {
        var pending: [Settlement] = []
        var blocks = DeliveryBlocks()
        /// The settlements to be written; one for each finished delivery in a block.
        var count = 0
        var isUrgent = false
        var isFinished = false
        var waiters: [Promise<Void>] = []
    }

    private let handler: String
    private let shared: DispatchShared
    private let report: HandlerReport
    /// Woken once rows are settled; nil if no claim waits for that.
    private let claims: DispatchSignal?
    private let state = Mutex(State())
    private let signal = DispatchSignal()
    /// Whether the backlog is at the high-water mark, readable without the lock.
    private let isFull = Atomic<Bool>(false)

    init(_ handler: String, _ shared: DispatchShared, _ report: HandlerReport, claims: DispatchSignal?) {
        (self.handler, self.shared, self.report, self.claims) = (handler, shared, report, claims)
    }

    /// The backlog at which slots wait before another attempt; they resume at half of it.
    private var highWaterMark: Int { shared.settings.settlementLimit * 4 }

    var isEmpty: Bool { state.withLock { $0.count == 0 && $0.blocks.isEmpty } }

    /// Takes settlements, never blocking; an urgent one, for which others wait, is written without lingering.
    func submit(_ settlements: some Collection<Settlement>, isUrgent: Bool = false) {
        guard !settlements.isEmpty else { return }
        change { state in
            for settlement in settlements where !state.blocks.take(settlement) {
                state.pending.append(settlement)
                state.count += 1
            }
            if isUrgent { state.isUrgent = true }
        }
    }

    // MARK: Blocks

    /// Records a committed block: `count` deliveries with its number will be submitted.
    func open(block: Int64, token: Int64, count: Int) {
        let now = shared.clock.now()
        state.withLock { $0.blocks.open(block, token: token, count: count, at: now) }
    }

    /// Abandons a block that may have committed, and that nobody here will run as such.
    func abandon(block: Int64, token: Int64) { change { $0.blocks.abandon(block, token: token) } }

    /// Unpacks blocks that have been open for too long, so that a crash repeats little.
    func unpackOld() {
        let limit = shared.clock.now() - shared.settings.blockAge
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
            if !isUrgent && !isFinished && count < shared.settings.settlementLimit / 2 {
                guard (try? await shared.clock.sleep(shared.settings.settlementLinger)) != nil else { return }
            }
            guard await settleNext() else { return }
        }
    }

    /// Writes the next settlements; false if cancelled.
    private func settleNext() async -> Bool {
        // Blocks first: what is unpacked may be settled as rows.
        let (blocks, batch) = take()
        if !blocks.isEmpty || !batch.isEmpty { shared.flush() }
        let (store, handler) = (shared.store, handler)
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
        claims?.set()
        return true
    }

    private func take() -> (blocks: [BlockSettlement], batch: [Settlement]) {
        state.withLock { state in
            state.isUrgent = false
            let blocks = state.blocks.takeReady()
            if state.pending.count <= shared.settings.settlementLimit {
                defer { state.pending = [] }
                return (blocks, state.pending)
            }
            let batch = Array(state.pending.prefix(shared.settings.settlementLimit))
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
        guard let held = await shared.untilDone(write) else { return false }
        if held < count { report.leasesLost(count - held) }
        return true
    }
}
