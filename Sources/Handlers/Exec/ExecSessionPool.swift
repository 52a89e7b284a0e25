import Dispatcher
import Glibc
import Logging
import Synchronization
import Vocabulary

/// A handler's idle long-lived processes, and the back-off for starting others.
final class ExecSessionPool: Sendable {
    private struct State {
        var idle: [ExecSession] = []
        var backoff = RestartBackoff()
        var isShutDown = false
    }

    let output: ExecOutputLog
    private let subject: String
    let mostIdle: Int
    private let state = Mutex(State())

    /// An empty pool of a handler; at most `mostIdle` processes stay, failures name `subject`.
    init(subject: String, handler: String, logger: Logger, mostIdle: Int = .max) {
        // A write to an ended process must fail, not kill us with SIGPIPE.
        signal(SIGPIPE, SIG_IGN)
        (self.subject, self.mostIdle) = (subject, mostIdle)
        output = ExecOutputLog(handler: handler, logger: logger)
    }

    /// An idle process, or one that `start` starts; throws ``HandlerVerdictError`` during the back-off.
    func checkOut(start: () async throws -> ExecSession) async throws -> ExecSession {
        let idle: ExecSession? = state.withLock { state in
            while let session = state.idle.popLast() {
                if session.isAlive { return session }
                if !session.hasAnswered { state.backoff.died(now: .now) }
            }
            return nil
        }
        if let idle { return idle }
        try await waitForBackoff()
        return try await start()
    }

    /// Takes back a process that has answered; `works` says whether the answer shows that it works.
    func checkIn(_ session: ExecSession, works: Bool = true) async {
        let isKept = state.withLock { state in
            if works { state.backoff.succeeded() } else { state.backoff.failed(now: .now) }
            guard works, !state.isShutDown, state.idle.count < mostIdle else { return false }
            state.idle.append(session)
            return true
        }
        if !isKept { await session.close() }
    }

    /// Records that a process has ended, or was ended because it broke the rules.
    func noteEnd(of session: ExecSession, reason: String, isFailure: Bool = false) {
        output.ended(reason)
        state.withLock { state in
            if isFailure || !session.hasAnswered { state.backoff.died(now: .now) }
        }
    }

    /// Records that a process has done its work and ended as intended.
    func succeeded() {
        state.withLock { $0.backoff.succeeded() }
    }

    /// Records a failed start; returns the wait until the next one.
    func startFailed() -> Duration? {
        state.withLock { state in
            state.backoff.failed(now: .now)
            return state.backoff.wait(now: .now)
        }
    }

    /// Throws during the back-off; if that is only the rate limit, waits.
    func waitForBackoff() async throws {
        let (wait, isPacing) = state.withLock { ($0.backoff.wait(now: .now), $0.backoff.isPacing) }
        guard let wait else { return }
        guard !isPacing else { return try await Task.sleep(for: wait) }
        let detail = "the \(subject) will be restarted later"
        throw HandlerVerdictError.unavailable(after: wait, "\(subject) ended repeatedly", detail)
    }

    /// Closes the processes' standard inputs, waits a moment, and kills the rest.
    func shutdown() async {
        let sessions = state.withLock { state in
            state.isShutDown = true
            defer { state.idle = [] }
            return state.idle
        }
        await withDiscardingTaskGroup { tasks in
            for session in sessions { tasks.addTask { await session.close() } }
        }
    }
}

/// When a program that can't be started, or ends without an answer, may be started again.
///
/// Once one of its processes has answered, the program works: a process that dies then is its message's fault, and must
/// not delay other messages. Starts are then only rate-limited.
struct RestartBackoff {
    /// The wait between starts of a working program, after the second consecutive end without an answer.
    static let pace = Duration.milliseconds(250)

    /// The waits from the second consecutive failure on; without jitter, since nobody else retries at the same time.
    static let waits = Backoff(initial: .milliseconds(500), maximum: .seconds(30))

    private var failures = 0
    private var deaths = 0
    private var works = false
    private var notBefore: ContinuousClock.Instant?

    /// Records an answer: the next start need not wait.
    mutating func succeeded() {
        self = RestartBackoff()
        works = true
    }

    /// Whether the wait is only the short rate limit.
    var isPacing: Bool { works && failures == 0 }

    /// Records that a process died with a message, or gave an invalid answer.
    mutating func died(now: ContinuousClock.Instant) {
        guard works else { return failed(now: now) }
        deaths = min(deaths + 1, 2)
        if deaths > 1, notBefore ?? now <= now { notBefore = now + Self.pace }
    }

    /// Records a failed start, or an end before any answer; the first causes no wait: one bad message must not delay
    /// the next.
    mutating func failed(now: ContinuousClock.Instant) {
        failures = min(failures + 1, 16)
        guard failures > 1 else { return }
        notBefore = now + Self.waits.ceiling(attempt: failures - 1)
    }

    /// The wait until the next start; nil if there is none.
    func wait(now: ContinuousClock.Instant) -> Duration? {
        guard let notBefore, notBefore > now else { return nil }
        return now.duration(to: notBefore)
    }
}
