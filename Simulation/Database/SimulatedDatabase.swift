import Synchronization
package import Vocabulary

/// PostgreSQL behind the ports of ingest and dispatcher, on a clock that is given.
///
/// It keeps what the statements of `MessageStore` keep, with the rules of read committed: each statement is a transaction that sees
/// what was committed before it; rows that an open transaction has changed are locked, and what would have waited for them waits.
/// The suite `SimulatedDatabaseTests` holds it against a real server.
///
/// Nothing goes wrong unless it is told to: ``setFaults(_:)`` for single statements, and the methods for the server. Those who
/// call them draw by their seed; the database itself draws only latencies, from the clock's random source.
package final class SimulatedDatabase: Sendable {
    package struct Replication: Sendable {
        fileprivate(set) var lag: Duration?
        package fileprivate(set) var isSynchronous = false

        /// One server: a commit that waited for the disk is never lost.
        package static let none = Replication()

        /// A standby that is behind by `lag`; commits don't wait for it, so a failover may lose the last ones.
        package static func asynchronous(lag: Duration) -> Replication { Replication(lag: lag) }

        /// A standby that is behind by `lag`; commits wait until it has confirmed them.
        package static func synchronous(lag: Duration) -> Replication { Replication(lag: lag, isSynchronous: true) }
    }

    package struct Options: Sendable {
        package var replication = Replication.none
        /// The time of a statement or its answer on the way; zero for none, which costs nothing.
        package var latency: ClosedRange<Duration> = .zero ... .zero
        /// The time limit for a lock.
        package var lockTimeout = Duration.seconds(2)
        /// `upstream.wants`: whether a message passes a handler's filter.
        package var passes: @Sendable (_ filter: String, StoredBody) -> Bool = { _, _ in true }
        /// Whether messages are kept whole, for replays.
        package var keepsBodies = false
        /// The server's time at the start, in microseconds since 1970-01-01 UTC.
        package var epoch: Int64 = 1_800_000_000_000_000

        package init() {}
    }

    let clock: TimeSource
    let options: Options
    private let start: ContinuousClock.Instant
    private let state: Mutex<ServerState>

    /// An empty database with our schema.
    package init(clock: TimeSource, _ options: Options = Options()) {
        (self.clock, self.options) = (clock, options)
        start = clock.now()
        state = Mutex(ServerState(options, now: clock.now()))
    }

    // MARK: Looking at it

    /// The committed rows, as an observer outside of every worker sees them.
    package func read<T: Sendable>(_ body: @Sendable (borrowing Tables) throws -> T) rethrows -> T {
        try state.withLock { try body($0.tables) }
    }

    /// The server's time, in microseconds since 1970-01-01 UTC.
    package var now: Int64 { time(clockOffset: state.withLock(\.clockOffset)) }

    /// How many transactions are open between their statement and their COMMIT.
    package var openTransactions: Int { state.withLock(\.open.count) }

    private func time(clockOffset: Int64) -> Int64 {
        options.epoch + start.duration(to: clock.now()).microseconds + clockOffset
    }

    // MARK: What goes wrong

    /// Decides about each run of a statement, by whoever draws; nil for no fault.
    package func setFaults(_ faults: (@Sendable (Statement, _ worker: String) -> StatementFault?)?) {
        state.withLock { $0.faults = faults }
    }

    /// Refuses new messages for their content, with the SQLSTATE that is returned.
    package func setRefusal(_ refuses: (@Sendable (borrowing IncomingMessage) -> String?)?) {
        state.withLock { $0.refuses = refuses }
    }

    /// The server crashes, and can't be reached until ``restart()``: sessions die, and what had not waited for the disk is lost
    /// if it had not reached it by itself.
    package func crash() {
        state.withLock { state in
            state.restart(state.journal.crash(at: clock.now()))
            state.isUp = false
        }
    }

    package func restart() { state.withLock { $0.isUp = true } }

    /// The standby takes over: sessions die, and what it lacks is lost.
    ///
    /// It has what it has confirmed, and up to `more` commits beyond that. Without replication it is a crash with a restart.
    package func failOver(keeping more: Int64 = 0, clockOffset: Duration? = nil) {
        guard options.replication.lag != nil else {
            crash()
            return restart()
        }
        state.withLock { state in
            state.restart(state.journal.failOver(keeping: more, at: clock.now()))
            (state.isUp, state.isReadOnly, state.isFull) = (true, false, false)
            if let clockOffset { state.clockOffset = clockOffset.microseconds }
        }
    }

    /// Connects or disconnects the standby; commits that wait for it wait until it is back, or has taken over.
    package func setStandby(isConnected: Bool) {
        state.withLock { $0.journal.setStandby(isConnected: isConnected, at: clock.now()) }
    }

    package func setReadOnly(_ isReadOnly: Bool) { state.withLock { $0.isReadOnly = isReadOnly } }

    package func setDiskFull(_ isFull: Bool) { state.withLock { $0.isFull = isFull } }

    /// Sets the server's clock so far from the simulation's.
    package func setClock(offset: Duration) { state.withLock { $0.clockOffset = offset.microseconds } }

    /// Ends a worker's sessions, as when it dies or is cut off; its open transactions are aborted.
    package func disconnect(_ worker: String) {
        state.withLock { state in
            state.abort(of: worker)
            state.cuts[worker, default: 0] += 1
            state.silence { $0 == worker }
        }
    }

    // MARK: What operators do

    /// Pauses a handler until it is resumed; false if its row is locked.
    @discardableResult
    package func pause(_ handler: String, reason: String) -> Bool {
        operate { state in state.update(handler) { ($0.isPaused, $0.pauseReason) = (true, reason) } }
    }

    /// Resumes a handler, also from a pause that it asked for; false if its row is locked.
    @discardableResult
    package func resume(_ handler: String) -> Bool {
        operate { state in
            let now = state.now
            state.update(handler) { row in
                (row.isPaused, row.pauseReason, row.heldUntil, row.holdReason) = (false, nil, nil, nil)
                row.resumedAt = now
            }
        }
    }

    /// Queues messages for a handler again, as a replay does, but for those that wait still; returns those that it has queued.
    package func replay(_ handler: String, _ messages: [Digest128]) -> [Digest128] {
        var queued: [Digest128] = []
        let isDone = operate { state in
            guard state.tables.handlers[handler] != nil else { return }
            let blocks = state.tables.blocks.filter { $0.key.handler == handler }.values
            let packed = Set(blocks.flatMap { $0.bodies.map(\.message.messageKey) })
            for key in messages where !packed.contains(key) && state.tables.queues[handler]?.rows[key] == nil {
                guard let body = state.tables.messages[key]?.body else { continue }
                let delivery = DeliveryKey(handler: handler, message: key)
                var row = DeliveryRow(body: body, receivedAt: body.message.receivedAt, nextAttemptAt: state.now)
                row.isReplayed = true
                state.change(.deadLetter(delivery, nil))
                state.change(.delivery(delivery, row))
                queued.append(key)
            }
        }
        if isDone { state.withLock { $0.notify() } }
        return isDone ? queued : []
    }

    /// Drops what all workers have registered, as a restored backup would.
    package func loseRegistrations() {
        operate { state in
            for key in state.tables.registrations.keys { state.change(.registration(key, nil)) }
            for key in state.tables.subscriptions.keys { state.change(.subscription(key, nil)) }
            for key in state.tables.handlers.keys { state.change(.handler(key, nil)) }
        }
    }

    /// A transaction that nothing goes wrong with; false, with no change, if it would wait for another.
    @discardableResult
    private func operate(_ body: (inout ServerState) -> Void) -> Bool {
        state.withLock { state in
            state.current = RunningTransaction(now: time(clockOffset: state.clockOffset))
            body(&state)
            if state.isBlocked {
                _ = state.undo()
                return false
            }
            return (try? finish(&state, nil)) != nil
        }
    }

    // MARK: Statements

    /// A session's identity: it is dead once the server's or the worker's sessions have ended.
    struct Session: Equatable, Sendable {
        fileprivate let life: Int
        fileprivate let cuts: Int
    }

    private static func session(_ state: borrowing ServerState, of worker: String) -> Session {
        Session(life: state.life, cuts: state.cuts[worker] ?? 0)
    }

    /// Opens a session; fails while the server is down.
    func connect(_ worker: String) async throws(StoreError) -> Session {
        try await travel()
        let session = state.withLock { $0.isUp ? Self.session($0, of: worker) : nil }
        try await travel()
        guard let session else { throw .lost }
        return session
    }

    func isAlive(_ session: Session, of worker: String) -> Bool {
        state.withLock { $0.isUp && Self.session($0, of: worker) == session }
    }

    /// Runs a statement as a transaction of its own.
    ///
    /// `waitsForDisk` is false for a commit that a crash may lose. The body may run several times, as it waits for locks; its
    /// changes count once.
    func run<T: Sendable>(
        _ statement: Statement,
        of worker: String,
        in session: Session,
        waitsForDisk: Bool = true,
        _ body: @Sendable (inout ServerState) throws(StoreError) -> T
    ) async throws(StoreError) -> T {
        let fault = state.withLock { $0.faults }?(statement, worker)
        let attempt = Attempt(worker: worker, session: session, fault: fault, waitsForDisk: waitsForDisk)
        try await travel()
        if case .lost(isApplied: false) = fault?.end { throw .lost }
        let limit = clock.now() + options.lockTimeout
        while true {
            let step = try state.withLock { state throws(StoreError) in
                try self.step(&state, statement, attempt, body)
            }
            switch step {
            case .blocked:
                guard clock.now() < limit else { throw .raised("55P03") }
                try await sleep(.milliseconds(5))
            case .open(let number, let value):
                do throws(StoreError) {
                    try await sleep(fault?.delay ?? .zero)
                } catch {
                    // Whoever gives up asks the server to cancel.
                    state.withLock { _ = $0.close(number) }
                    throw error
                }
                let commit = try state.withLock { state throws(StoreError) in
                    guard Self.session(state, of: worker) == session, let transaction = state.close(number) else {
                        throw StoreError.lost
                    }
                    state.redo(transaction)
                    return try finish(&state, attempt)
                }
                try await confirm(commit, attempt)
                return value
            case .committed(let commit, let value):
                try await confirm(commit, attempt)
                return value
            }
        }
    }

    /// A statement's run in a worker's session.
    private struct Attempt: Sendable {
        let worker: String
        let session: Session
        let fault: StatementFault?
        let waitsForDisk: Bool
    }

    private enum Step<T: Sendable>: Sendable {
        /// Another transaction holds a row.
        case blocked
        /// Its COMMIT comes later.
        case open(Int, T)
        case committed(Commit, T)
    }

    private struct Commit: Sendable {
        /// 0 for none.
        let number: Int64
        /// Whether other workers are to be woken.
        let notifies: Bool
    }

    private func step<T: Sendable>(
        _ state: inout ServerState,
        _ statement: Statement,
        _ attempt: Attempt,
        _ body: (inout ServerState) throws(StoreError) -> T
    ) throws(StoreError) -> Step<T> {
        guard state.isUp, Self.session(state, of: attempt.worker) == attempt.session else { throw .lost }
        if case .raised(let sqlState) = attempt.fault?.end { throw .raised(sqlState) }
        if !statement.isReadOnly {
            if state.isReadOnly { throw .raised("25006") }
            if state.isFull { throw .raised("53100") }
        }
        state.current = RunningTransaction(now: time(clockOffset: state.clockOffset))
        let value: T
        do throws(StoreError) {
            value = try body(&state)
        } catch {
            _ = state.undo()
            throw error
        }
        if state.isBlocked {
            _ = state.undo()
            return .blocked
        }
        guard let fault = attempt.fault, fault.delay > .zero else {
            return .committed(try finish(&state, attempt), value)
        }
        let (locks, notifies) = (state.current.locks, state.current.notifies)
        let changes = state.undo()
        state.lastTransaction += 1
        let held = locks + changes.compactMap(\.lock)
        for key in held { state.locks[key] = state.lastTransaction }
        state.open[state.lastTransaction] =
            .init(worker: attempt.worker, changes: changes, locks: held, notifies: notifies)
        return .open(state.lastTransaction, value)
    }

    /// Commits the running transaction, or takes it back if its fault says so; an operator's has none.
    private func finish(_ state: inout ServerState, _ attempt: Attempt?) throws(StoreError) -> Commit {
        if let end = attempt?.fault?.end, !end.isApplied {
            _ = state.undo()
            throw end.error
        }
        let waitsForDisk = attempt?.waitsForDisk ?? true
        // Even a transaction without changes waits for those before it, as all statements that acks rely on write to the log.
        var number = state.journal.last
        if !state.current.inverses.isEmpty, state.journal.keepsEverything || !waitsForDisk {
            number = state.journal.commit(state.current.inverses, waitsForDisk: waitsForDisk, at: clock.now())
        } else if waitsForDisk {
            state.journal.flush()
        }
        return Commit(number: number, notifies: state.current.notifies)
    }

    /// Waits for the standby, and for the answer; only who has it wakes other workers.
    private func confirm(_ commit: Commit, _ attempt: Attempt) async throws(StoreError) {
        let (worker, session, fault) = (attempt.worker, attempt.session, attempt.fault)
        if options.replication.isSynchronous, attempt.waitsForDisk, fault?.end == nil {
            while true {
                let wait = try state.withLock { state throws(StoreError) in
                    guard Self.session(state, of: worker) == session else { throw StoreError.lost }
                    let now = clock.now()
                    guard !state.journal.isConfirmed(commit.number, at: now) else { return Duration.zero }
                    let end = state.journal.confirmation(at: now) ?? now + .milliseconds(50)
                    return max(now.duration(to: end), .microseconds(1))
                }
                guard wait > .zero else { break }
                try await sleep(wait)
            }
        }
        try await travel()
        if let end = fault?.end { throw end.error }
        guard isAlive(session, of: worker) else { throw .lost }
        if commit.notifies { state.withLock { $0.notify() } }
    }

    /// A message's way through the network.
    private func travel() async throws(StoreError) {
        let (least, most) = (options.latency.lowerBound, options.latency.upperBound)
        guard most > .zero else { return }
        try await sleep(least + (most - least) * clock.random())
    }

    func sleep(_ duration: Duration) async throws(StoreError) {
        guard duration > .zero else { return }
        do { try await clock.sleep(duration) } catch { throw .cancelled }
    }

    /// Waits for notifications until the session ends.
    func listen(_ worker: String, in session: Session, wake: @Sendable () -> Void) async throws(StoreError) {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = try state.withLock { state throws(StoreError) in
            guard state.isUp, Self.session(state, of: worker) == session else { throw StoreError.lost }
            state.lastListener += 1
            state.listeners[state.lastListener] = (worker, continuation)
            return state.lastListener
        }
        for await _ in stream {
            guard isAlive(session, of: worker) else { break }
            wake()
        }
        state.withLock { _ = $0.listeners.removeValue(forKey: number) }
        throw Task.isCancelled ? .cancelled : .lost
    }
}
