import Pipeline
import Synchronization

/// The long-lived processes of a handler that wait for work, and when another may be started.
final class ExecSessionPool: Sendable {
    private struct State {
        var idle: [ExecSession] = []
        var backoff = RestartBackoff()
        var isShutDown = false
    }

    private let subject: String
    private let output: ExecOutputLog
    private let mostIdle: Int
    private let state = Mutex(State())

    /// An empty pool.
    ///
    /// - Parameters:
    ///   - subject: What the processes are, for failures.
    ///   - output: Where their ends are logged.
    ///   - mostIdle: How many may wait for work; others are closed.
    init(subject: String, output: ExecOutputLog, mostIdle: Int = .max) {
        (self.subject, self.output, self.mostIdle) = (subject, output, mostIdle)
    }

    /// A process that waits, or one that `start` starts.
    ///
    /// - Throws: ``Pipeline/HandlerVerdictError`` while none may be started, and what `start` throws.
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

    /// Takes a process back that has answered.
    ///
    /// - Parameters:
    ///   - session: The process.
    ///   - works: Whether its answer shows that it can do its work.
    func checkIn(_ session: ExecSession, works: Bool = true) async {
        let isKept = state.withLock { state in
            if works { state.backoff.succeeded() } else { state.backoff.failed(now: .now) }
            guard works, !state.isShutDown, state.idle.count < mostIdle else { return false }
            state.idle.append(session)
            return true
        }
        if !isKept { await session.close() }
    }

    /// A process has ended, or is ended because it broke the rules.
    func noteEnd(of session: ExecSession, reason: String, isFailure: Bool = false) {
        output.ended(reason)
        state.withLock { state in
            if isFailure || !session.hasAnswered { state.backoff.died(now: .now) }
        }
    }

    /// A process has done its work and ended, as it was to.
    func succeeded() {
        state.withLock { $0.backoff.succeeded() }
    }

    /// A process could not be started; returns how long to wait until the next start.
    func startFailed() -> Duration? {
        state.withLock { state in
            state.backoff.failed(now: .now)
            return state.backoff.wait(now: .now)
        }
    }

    /// Throws while none may be started yet; waits if that is only a moment.
    func waitForBackoff() async throws {
        let (wait, isPacing) = state.withLock { ($0.backoff.wait(now: .now), $0.backoff.isPacing) }
        guard let wait else { return }
        guard !isPacing else { return try await Task.sleep(for: wait) }
        throw HandlerVerdictError(
            .unavailable(
                after: wait,
                HandlerFailure(group: "\(subject) ended repeatedly", detail: "the \(subject) will be restarted later")
            )
        )
    }

    /// Closes the processes' standard inputs, waits a moment, and kills those that are left.
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
