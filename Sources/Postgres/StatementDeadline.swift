import Vocabulary

/// What a probe found out about a session that has not answered.
enum BackendFinding: Equatable, Sendable {
    /// It waits for a standby to confirm its commit, or for a lock of a session that does.
    case waitsForStandby
    /// It runs our statement, or waits for a lock.
    case works
    /// It is idle: the statement has not arrived yet, or its answer was lost.
    case idle
    case gone
    /// The server can't be reached, or does not answer either.
    case unreachable
    /// The server's answer does not tell.
    case unclear
    /// A pooler answers, but no server behind it: it has no free connection, or its server is silent or gone.
    case silent
}

/// A statement's deadline, and the actions before and after it.
///
/// The limit is enforced here besides the server's `statement_timeout`, which a vanished server can't enforce and which
/// can't be set behind a pooler in transaction mode. At the limit, and when the task is cancelled, we ask the server to
/// cancel, and then wait for a while.
///
/// With probes, we first ask what the server is doing, and also whenever the statement has had no answer for a while: a
/// wait for a standby has no limit and is never cancelled, and a session that is gone or unreachable is given up.
/// States and moves:
///
/// - *waiting* → a probe is due, the limit is reached or the task is cancelled: *probing*; without probes: *cancelled*.
/// - *probing* → by the finding: *waiting* (with no limit for a standby), *cancelled*, or given up.
/// - *cancelled* → given up when the grace is over.
struct StatementDeadline {
    enum Step: Equatable {
        case wait
        /// Start a probe, then report its finding to ``found(_:isUnsent:)``.
        case probe
        /// Ask the server to cancel, then continue to wait.
        case cancel
        /// Close the connection.
        case giveUp
    }

    struct Probes {
        /// How long a statement goes without an answer before a probe, in milliseconds.
        var after: Int64
        /// How long a probe may take, in milliseconds.
        var limit: Int64
    }

    private enum State {
        /// Until the next probe; nil for none.
        case waiting(probe: Int64?)
        case probing(until: Int64)
        case cancelled(until: Int64)
    }

    private let limit: Int64
    private let grace: Int64
    private let probes: Probes?
    private var state: State
    /// When the limit is reached; nil while it waits for a standby.
    private var deadline: Int64?
    private var isCancelled = false
    /// Consecutive probes that found the session idle.
    private(set) var idle = 0
    /// Consecutive probes without an answer from behind a pooler.
    private var silent = 0
    private let now: () -> Int64

    private(set) var hasCancelled = false
    private(set) var waitsForStandby = false
    private(set) var isLate = false

    /// Starts the clock; all times are in milliseconds, and nil `probes` means never.
    init(_ limit: Int, grace: Int, probes: Probes? = nil, now: @escaping () -> Int64 = monotonicMilliseconds) {
        // Lets the server's own limit, if any, come first.
        self.limit = Int64(limit) + 1_000
        deadline = now() + self.limit
        state = .waiting(probe: probes.map { now() + $0.after })
        self.grace = Int64(grace)
        self.probes = probes
        self.now = now
    }

    /// The action before the next wait.
    mutating func next(isCancelled: Bool) -> Step {
        let time = now()
        self.isCancelled = isCancelled
        switch state {
        case .cancelled(let until): return time >= until ? .giveUp : .wait
        case .probing(let until): return time >= until ? found(.unreachable, isUnsent: false) : .wait
        case .waiting(let probe):
            if let deadline, time >= deadline { isLate = true }
            guard let probes else { return isLate || isCancelled ? cancel() : .wait }
            guard isLate || isCancelled || probe.map({ time >= $0 }) ?? false else { return .wait }
            state = .probing(until: time + probes.limit)
            return .probe
        }
    }

    /// Handles a probe's finding; `isUnsent` says whether our bytes are still on their way to the server.
    ///
    /// - Returns: The action before the next wait; never another probe.
    mutating func found(_ finding: BackendFinding, isUnsent: Bool) -> Step {
        guard case .probing = state, let probes else { return .wait }
        let isOver = isLate || isCancelled
        idle = finding == .idle ? idle + 1 : 0
        silent = finding == .silent ? silent + 1 : 0
        // No longer a wait for a standby, which alone has no limit.
        if deadline == nil { deadline = now() + limit }
        switch finding {
        case .waitsForStandby:
            // A cancelled wait would be reported as committed; left alone, the commit is confirmed when the standby is
            // back.
            if isCancelled { return .giveUp }
            waitsForStandby = true
            deadline = nil
            isLate = false
            state = .waiting(probe: now() + probes.after)
        case .works:
            if isOver { return cancel() }
            state = .waiting(probe: now() + probes.after)
        case .idle:
            if isOver || (idle > 1 && !isUnsent) { return .giveUp }
            state = .waiting(probe: now() + (isUnsent ? probes.after : probes.after / 10))
        case .unclear:
            if isOver { return .giveUp }
            state = .waiting(probe: now() + probes.after)
        case .silent:
            // Soon again: a busy pooler has had time for both probes, and its server may stay silent for ever.
            if isOver || silent > 1 { return .giveUp }
            state = .waiting(probe: now() + probes.after / 10)
        case .gone, .unreachable: return .giveUp
        }
        return .wait
    }

    private mutating func cancel() -> Step {
        hasCancelled = true
        state = .cancelled(until: now() + grace)
        return .cancel
    }

    /// The time to the next step, for `poll`.
    var milliseconds: Int32 {
        let next: Int64 =
            switch state {
            case .cancelled(let until), .probing(let until): until
            case .waiting(let probe): min(probe ?? .max, deadline ?? .max)
            }
        return Int32(clamping: max(1, next - now()))
    }
}

func monotonicMilliseconds() -> Int64 {
    MonotonicTime.now.milliseconds
}
