import Synchronization
import UpstreamKit
import Vocabulary

/// Writes settlements to the table, many in one transaction.
///
/// While the database can't commit, they are kept and retried. The backlog is bounded: slots wait for room before they begin
/// another attempt.
final class DispatchSettler: Sendable {
    private struct State {
        /// By lane.
        var pending: [[Settlement]]
        /// By lane.
        var blocks: [DeliveryBlocks]
        /// The settlements to be written; one for each delivery that is done in a block.
        var count = 0
        var isUrgent = false
        var isFinished = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let handlers: [String]
    private let store: any DeliveryStore
    private let settings: DispatchSettings
    private let clock: TimeSource
    private let report: DispatchReport
    private let willSettle: @Sendable () -> Void
    private let settled: @Sendable (Int) -> Void
    private let state: Mutex<State>
    private let signal = DispatchSignal()
    /// Whether the backlog is at the high-water mark, for slots to see without the lock.
    private let isFull = Atomic<Bool>(false)

    /// A settler for these handlers, one lane each.
    ///
    /// `willSettle` is called before settlements are sent, and waited for; `settled` with the lane once they have committed.
    init(
        handlers: [String],
        store: any DeliveryStore,
        settings: DispatchSettings,
        clock: TimeSource,
        report: DispatchReport,
        willSettle: @escaping @Sendable () -> Void,
        settled: @escaping @Sendable (Int) -> Void
    ) {
        self.handlers = handlers
        self.store = store
        self.settings = settings
        self.clock = clock
        self.report = report
        self.willSettle = willSettle
        self.settled = settled
        state = Mutex(State(pending: handlers.map { _ in [] }, blocks: handlers.map { _ in DeliveryBlocks() }))
    }

    /// The backlog at which slots wait before another attempt; they go on at half of it.
    private var highWaterMark: Int { settings.settlementLimit * 4 }

    /// Whether nothing waits to be settled, or is being settled.
    var isEmpty: Bool { state.withLock { $0.count == 0 && $0.blocks.allSatisfy(\.isEmpty) } }

    /// Takes settlements; never blocks.
    ///
    /// `isUrgent` where others wait for the outcome: the batch is then written without lingering for more.
    func submit(_ settlements: [Settlement], lane: Int, isUrgent: Bool = false) {
        guard !settlements.isEmpty else { return }
        change(lane) { state in
            for settlement in settlements where !state.blocks[lane].take(settlement) {
                state.pending[lane].append(settlement)
                state.count += 1
            }
            if isUrgent { state.isUrgent = true }
        }
    }

    /// Takes an attempt's settlement, and others.
    func submit(_ settlement: Settlement, _ others: [Settlement], lane: Int, isUrgent: Bool) {
        change(lane) { state in
            if !state.blocks[lane].take(settlement) {
                state.pending[lane].append(settlement)
                state.count += 1
            }
            if isUrgent { state.isUrgent = true }
        }
        submit(others, lane: lane, isUrgent: isUrgent)
    }

    // MARK: Blocks

    /// A block has committed: `count` deliveries with its number will be submitted.
    func open(block: Int64, token: Int64, count: Int, lane: Int) {
        let now = clock.now()
        state.withLock { $0.blocks[lane].open(block, token: token, count: count, at: now) }
    }

    /// A block may have committed, and nobody here will run what it holds as such.
    func abandon(block: Int64, token: Int64, lane: Int) {
        change(lane) { $0.blocks[lane].abandon(block, token: token) }
    }

    /// Unpacks what has been open for too long, so that a crash repeats little.
    func unpackOld() {
        let limit = clock.now() - settings.blockAge
        for lane in handlers.indices { change(lane) { $0.blocks[lane].unpack(openedBefore: limit) } }
    }

    /// Changes the state, counts what blocks are to be settled now, and wakes ``run()`` where there is something new.
    private func change(_ lane: Int, _ body: (inout State) -> Void) {
        let wakes = state.withLock { state in
            let wasEmpty = state.count == 0
            let before = state.blocks[lane].ready.count
            body(&state)
            state.count += state.blocks[lane].ready[before...].reduce(0) { $0 + $1.weight }
            if state.count >= highWaterMark { isFull.store(true, ordering: .relaxed) }
            return wasEmpty && state.count > 0
        }
        if wakes { signal.set() }
    }

    /// Waits while the backlog is at the high-water mark.
    func waitForRoom() async {
        guard isFull.load(ordering: .relaxed) else { return }
        await withCheckedContinuation { continuation in
            let goesOn = state.withLock { state in
                if state.count < highWaterMark || state.isFinished { return true }
                state.waiters.append(continuation)
                return false
            }
            if goesOn { continuation.resume() }
        }
    }

    /// Nothing more will be submitted: ``run()`` ends once all is settled.
    func finish() {
        for lane in handlers.indices { change(lane) { $0.blocks[lane].unpackAll() } }
        let waiters = state.withLock { state in
            state.isFinished = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
        signal.set()
    }

    /// Settles until finished, or until cancelled.
    func run() async {
        // No slot may go on waiting for room.
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
            for lane in handlers.indices {
                // Blocks first: what is unpacked may be settled as rows.
                let (blocks, batch) = take(lane)
                if !blocks.isEmpty || !batch.isEmpty { willSettle() }
                if !blocks.isEmpty {
                    let done = blocks.reduce(0) { $0 + $1.done.count }
                    let store = store
                    let name = handlers[lane]
                    guard
                        await settle(
                            done,
                            lane,
                            { () async throws(StoreError) in try await store.settle(blocks, of: name) }
                        )
                    else { return }
                    free(blocks.reduce(0) { $0 + $1.weight })
                }
                guard !batch.isEmpty else { continue }
                let (store, name) = (store, handlers[lane])
                guard
                    await settle(
                        batch.count,
                        lane,
                        { () async throws(StoreError) in try await store.settle(batch, of: name) }
                    )
                else { return }
                free(batch.count)
                settled(lane)
            }
        }
    }

    private func take(_ lane: Int) -> (blocks: [BlockSettlement], batch: [Settlement]) {
        state.withLock { state in
            state.isUrgent = false
            let blocks = state.blocks[lane].takeReady()
            if state.pending[lane].count <= settings.settlementLimit {
                defer { state.pending[lane] = [] }
                return (blocks, state.pending[lane])
            }
            let batch = Array(state.pending[lane].prefix(settings.settlementLimit))
            state.pending[lane].removeFirst(batch.count)
            return (blocks, batch)
        }
    }

    private func free(_ count: Int) {
        let waiters = state.withLock { state in
            state.count -= count
            guard state.count < highWaterMark / 2 else { return [] as [CheckedContinuation<Void, Never>] }
            isFull.store(false, ordering: .relaxed)
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Retries until the settlements are written; false when cancelled.
    private func settle(_ count: Int, _ lane: Int, _ write: () async throws(StoreError) -> Int) async -> Bool {
        var attempt = 0
        while true {
            do throws(StoreError) {
                let held = try await write()
                if attempt > 0 { report.recovered() }
                if held < count { report.leasesLost(count - held, lane) }
                return true
            } catch {
                attempt += 1
                report.storeFailed(error, isFirst: attempt == 1)
                // Rejected because of its content: the deliveries become due again when their leases expire.
                if error.kind == .refused { return true }
                let delay = DispatchReport.retry.delay(attempt: attempt, random: clock.random())
                guard (try? await clock.sleep(delay)) != nil else { return false }
            }
        }
    }
}
