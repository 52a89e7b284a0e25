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
        var count = 0
        var isUrgent = false
        var isFinished = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let handlers: [String]
    private let store: any DeliveryStore
    private let settings: DispatchSettings
    private let clock: PipelineClock
    private let report: DispatchReport
    private let settled: @Sendable (Int) -> Void
    private let state: Mutex<State>
    private let signal = DispatchSignal()

    /// A settler for these handlers, one lane each.
    ///
    /// `settled` is called with the lane once its settlements have committed.
    init(
        handlers: [String],
        store: any DeliveryStore,
        settings: DispatchSettings,
        clock: PipelineClock,
        report: DispatchReport,
        settled: @escaping @Sendable (Int) -> Void
    ) {
        self.handlers = handlers
        self.store = store
        self.settings = settings
        self.clock = clock
        self.report = report
        self.settled = settled
        state = Mutex(State(pending: handlers.map { _ in [] }))
    }

    /// The backlog at which slots wait before another attempt; they go on at half of it.
    private var highWaterMark: Int { settings.settlementLimit * 4 }

    /// Whether nothing waits to be settled, or is being settled.
    var isEmpty: Bool { state.withLock { $0.count == 0 } }

    /// Takes settlements; never blocks.
    ///
    /// `isUrgent` where others wait for the outcome: the batch is then written without lingering for more.
    func submit(_ settlements: [Settlement], lane: Int, isUrgent: Bool = false) {
        guard !settlements.isEmpty else { return }
        let wakes = state.withLock { state in
            let wasEmpty = state.count == 0
            state.pending[lane] += settlements
            state.count += settlements.count
            if isUrgent { state.isUrgent = true }
            return wasEmpty
        }
        if wakes { signal.set() }
    }

    /// Waits while the backlog is at the high-water mark.
    func waitForRoom() async {
        guard state.withLock({ $0.count >= highWaterMark && !$0.isFinished }) else { return }
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
                let batch = take(lane)
                guard !batch.isEmpty else { continue }
                guard await settle(batch, lane) else { return }
                free(batch.count)
                settled(lane)
            }
        }
    }

    private func take(_ lane: Int) -> [Settlement] {
        state.withLock { state in
            state.isUrgent = false
            if state.pending[lane].count <= settings.settlementLimit {
                defer { state.pending[lane] = [] }
                return state.pending[lane]
            }
            let batch = Array(state.pending[lane].prefix(settings.settlementLimit))
            state.pending[lane].removeFirst(batch.count)
            return batch
        }
    }

    private func free(_ count: Int) {
        let waiters = state.withLock { state in
            state.count -= count
            guard state.count < highWaterMark / 2 else { return [] as [CheckedContinuation<Void, Never>] }
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Retries until the batch is written; false when cancelled.
    private func settle(_ batch: [Settlement], _ lane: Int) async -> Bool {
        var attempt = 0
        while true {
            do throws(StoreError) {
                let held = try await store.settle(batch, of: handlers[lane])
                if attempt > 0 { report.recovered() }
                if held < batch.count { report.leasesLost(batch.count - held, lane) }
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
