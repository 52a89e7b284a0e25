package import Dispatcher
import Ingest
import MessageStore
import Synchronization
package import Vocabulary

/// A writer of messages on a ``SimulatedDatabase``: the statements of a commit, in their order, as `MessageStore` sends them.
package final class SimulatedWriter: MessageWriter {
    /// The clock that stamps a worker's messages, and that worker's own clocks.
    package struct Stamps: Sendable {
        package var clock: DatabaseClock
        package var moment: @Sendable () -> ClockReading.Moment

        package init(_ clock: DatabaseClock, moment: @escaping @Sendable () -> ClockReading.Moment) {
            (self.clock, self.moment) = (clock, moment)
        }
    }

    private struct Link: Sendable {
        var session: SimulatedDatabase.Session?
        var hasFailed = false
    }

    private let database: SimulatedDatabase
    private let worker: String
    private let senders: [String]
    private let stamps: Stamps?
    private let link = Mutex(Link())

    /// A writer of one worker: a session of its own, opened on demand.
    ///
    /// `senders` are the configured ids, in the order of ``IncomingMessage/sender``. With `stamps`, it teaches the worker's
    /// clock the server's time with each session, and has the times of messages checked.
    package init(_ database: SimulatedDatabase, worker: String, senders: [String], stamps: Stamps? = nil) {
        (self.database, self.worker, self.senders, self.stamps) = (database, worker, senders, stamps)
    }

    package func commit(
        _ batch: [IncomingMessage],
        leasing offer: LeaseOffer,
        isRetry: Bool
    ) async throws(StoreError) -> [StoreOutcome] {
        guard !batch.isEmpty else { return [] }
        let session = try await connected()
        do throws(StoreError) {
            return try await commit(batch, BatchPlan(batch), offer, isRetry, session)
        } catch {
            if error.endsSession || error.kind == .misdated { link.withLock { $0.session = nil } }
            throw error
        }
    }

    private func connected() async throws(StoreError) -> SimulatedDatabase.Session {
        let (session, hasFailed) = link.withLock { ($0.session, $0.hasFailed) }
        if let session { return session }
        // As `PostgresClient` waits before it tries again.
        if hasFailed { try await database.sleep(.milliseconds(250) + .milliseconds(250) * database.clock.random()) }
        let asked = stamps?.moment()
        do throws(StoreError) {
            let session = try await database.connect(worker)
            link.withLock { $0 = Link(session: session) }
            if let stamps, let asked {
                let time = Timestamp(microseconds: database.now)
                stamps.clock.learn(ClockReading(asked: asked, database: time, answered: stamps.moment()))
            }
            return session
        } catch {
            link.withLock { $0.hasFailed = true }
            throw error
        }
    }

    private func commit(
        _ batch: [IncomingMessage],
        _ plan: BatchPlan,
        _ offer: LeaseOffer,
        _ isRetry: Bool,
        _ session: SimulatedDatabase.Session
    ) async throws(StoreError) -> [StoreOutcome] {
        let insert = BatchInsert(
            batch: batch,
            senders: senders,
            offer: offer,
            times: stamps == nil ? nil : BatchPlan.times(batch)
        )
        let outcomes = try await store(plan, insert, isRetry, session)
        if outcomes.contains(.conflict) {
            let conflicts = plan.ordered.filter { outcomes[$0] == .conflict }
            try await run(.conflicts, session) { state throws(StoreError) in try insert.conflicts(conflicts, &state) }
        }
        if !plan.quarantined.isEmpty {
            try await run(.quarantine, session) { state throws(StoreError) in
                try insert.quarantine(plan.quarantined, &state)
            }
        }
        return outcomes
    }

    private func store(
        _ plan: BatchPlan,
        _ insert: BatchInsert,
        _ isRetry: Bool,
        _ session: SimulatedDatabase.Session
    ) async throws(StoreError) -> [StoreOutcome] {
        let batch = insert.batch
        guard !plan.firsts.isEmpty else { return plan.outcomesAllNew(batch) }
        var ledger = isRetry ? try await run(.ledger, session) { insert.ledger(plan.firsts, $0) } : [:]
        let missing = ledger.isEmpty ? plan.firsts : plan.firsts.filter { ledger[batch[$0].messageKey] == nil }
        var new = 0
        if !missing.isEmpty {
            new = try await run(.store, session) { state throws(StoreError) in try insert.messages(missing, &state) }
        }
        if new == plan.firsts.count { return plan.outcomesAllNew(batch) }
        if new == missing.count {
            for index in missing { ledger[batch[index].messageKey] = BatchPlan.LedgerRow(batch[index]) }
        } else {
            ledger = try await run(.ledger, session) { insert.ledger(plan.firsts, $0) }
        }
        // Nothing deletes ledger rows here.
        guard let outcomes = plan.outcomes(batch, ledger: ledger, mayBeOurs: isRetry || new > 0) else {
            throw .raised("XX000")
        }
        return outcomes
    }

    private func run<T: Sendable>(
        _ statement: Statement,
        _ session: SimulatedDatabase.Session,
        _ body: @Sendable (inout ServerState) throws(StoreError) -> T
    ) async throws(StoreError) -> T {
        try await database.run(statement, of: worker, in: session, body)
    }
}
