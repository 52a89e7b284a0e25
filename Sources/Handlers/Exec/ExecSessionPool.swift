import Dispatcher
import Synchronization

/// A handler's idle long-lived processes, and the back-off for starting others.
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

    /// An empty pool; at most `mostIdle` processes are kept, `subject` names them in failures, `output` logs their
    /// ends.
    init(subject: String, output: ExecOutputLog, mostIdle: Int = .max) {
        (self.subject, self.output, self.mostIdle) = (subject, output, mostIdle)
    }

    /// An idle process, or one that `start` starts.
    ///
    /// - Throws: ``Pipeline/HandlerVerdictError`` during the back-off, and what `start` throws.
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
        throw HandlerVerdictError(
            .unavailable(
                after: wait,
                HandlerFailure(group: "\(subject) ended repeatedly", detail: "the \(subject) will be restarted later")
            )
        )
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
