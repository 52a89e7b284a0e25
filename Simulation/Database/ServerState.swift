import Vocabulary

/// A transaction while its statement runs.
struct RunningTransaction: Sendable {
    /// By the server's clock, the same throughout; in microseconds since 1970-01-01 UTC.
    var now: Int64 = 0
    /// What takes its changes back, in the order in which they were made.
    var inverses: [Change] = []
    /// Its advisory locks.
    var locks: [LockKey] = []
    /// Whether other workers are to be woken after its COMMIT.
    var notifies = false
}

/// One server as its sessions see it.
struct ServerState: Sendable {
    var tables = Tables()
    var journal: Journal
    /// Fencing tokens given out; may be behind what the log has, which a restart skips.
    var tokens: Int64 = 0
    /// Rows and advisory locks of open transactions.
    var locks: [LockKey: Int] = [:]
    /// Transactions between their statement and their COMMIT.
    var open: [Int: OpenTransaction] = [:]
    var lastTransaction = 0

    /// Changes with each crash and failover: sessions of another life are dead.
    var life = 0
    /// The number of times each worker's sessions were cut.
    var cuts: [String: Int] = [:]
    var isUp = true
    var isReadOnly = false
    var isFull = false
    /// How far the server's clock is from the simulation's, in microseconds.
    var clockOffset: Int64 = 0
    var faults: (@Sendable (Statement, _ worker: String) -> StatementFault?)?
    /// The SQLSTATE with which a message's row is refused, as a constraint or a limit of the site's would; nil for none.
    var refuses: (@Sendable (borrowing IncomingMessage) -> String?)?
    /// Whether a message passes a filter.
    let passes: @Sendable (_ filter: String, StoredBody) -> Bool
    let keepsBodies: Bool
    /// Those who wait for notifications.
    var listeners: [Int: (worker: String, wake: AsyncStream<Void>.Continuation)] = [:]
    var lastListener = 0

    /// The transaction whose statement runs, within one step of the simulation.
    var current = RunningTransaction()

    init(_ options: SimulatedDatabase.Options, now: ContinuousClock.Instant) {
        journal = Journal(lag: options.replication.lag, now: now)
        (passes, keepsBodies) = (options.passes, options.keepsBodies)
    }

    struct OpenTransaction: Sendable {
        let worker: String
        /// What its COMMIT does.
        let changes: [Change]
        let locks: [LockKey]
        let notifies: Bool
    }

    // MARK: Transactions

    /// Ends an open transaction and gives its locks back; nil if it has been aborted.
    mutating func close(_ number: Int) -> OpenTransaction? {
        guard let transaction = open.removeValue(forKey: number) else { return nil }
        for key in transaction.locks { locks[key] = nil }
        return transaction
    }

    /// Aborts what is open in a worker's sessions, or in all.
    mutating func abort(of worker: String? = nil) {
        for (number, transaction) in open where worker == nil || transaction.worker == worker { _ = close(number) }
    }

    mutating func notify() {
        // In their order: a seed gives the same run each time.
        for (_, listener) in listeners.sorted(by: { $0.key < $1.key }) { listener.wake.yield() }
    }

    /// Ends the sessions that listen, of some workers.
    mutating func silence(_ isEnded: (String) -> Bool) {
        for (number, listener) in listeners where isEnded(listener.worker) {
            listener.wake.finish()
            listeners[number] = nil
        }
    }

    /// Takes changes back, and ends every session.
    mutating func restart(_ lost: [Change]) {
        abort()
        for change in lost { _ = tables.apply(change) }
        // A sequence goes on from what the log has of it.
        tokens = tables.loggedTokens
        life += 1
        silence { _ in true }
    }
}

// What a running statement does: it sees what was committed, as the changes of open transactions are not in the tables.
extension ServerState {
    var now: Int64 { current.now }

    mutating func change(_ change: Change) { current.inverses.append(tables.apply(change)) }

    /// Whether another transaction holds it.
    func isLocked(_ key: LockKey) -> Bool { !locks.isEmpty && locks[key] != nil }

    /// Takes an advisory lock until the transaction ends; false if another has it.
    mutating func tryLock(_ key: LockKey) -> Bool {
        guard !isLocked(key) else { return false }
        current.locks.append(key)
        return true
    }

    /// Whether another transaction holds what this one has changed, so that it would have waited.
    var isBlocked: Bool { !locks.isEmpty && current.inverses.contains { $0.lock.map { locks[$0] != nil } ?? false } }

    /// A new fencing token; the log is ahead of it by up to 32, as PostgreSQL's is.
    mutating func nextToken() -> Int64 {
        tokens += 1
        if tokens > tables.loggedTokens { change(.tokens(tokens + 31)) }
        return tokens
    }

    /// Makes the changes of a transaction that was open; nobody else can have changed its rows meanwhile.
    mutating func redo(_ transaction: OpenTransaction) {
        current = RunningTransaction()
        for change in transaction.changes {
            // The log of tokens may have gone on.
            if case .tokens(let number) = change, number <= tables.loggedTokens { continue }
            self.change(change)
        }
        current.notifies = transaction.notifies
    }

    /// Takes the running transaction's changes back, and returns them in the order in which they were made.
    mutating func undo() -> [Change] {
        var changes: [Change] = []
        while let inverse = current.inverses.popLast() { changes.append(tables.apply(inverse)) }
        return changes.reversed()
    }
}
