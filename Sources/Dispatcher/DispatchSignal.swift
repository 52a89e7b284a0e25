import Synchronization
import Vocabulary

/// An auto-reset event: wakes one waiting task; signals without a waiter coalesce into one.
final class DispatchSignal: Sendable {
    private struct State {
        var isSet = false
        var isFinished = false
        var waiter: Promise<Void>?
    }

    private let state = Mutex(State())

    /// Wakes the waiting task, or else the next one to wait.
    func set() {
        let waiter = state.withLock { state in
            if state.waiter == nil { state.isSet = true }
            return state.waiter.take()
        }
        waiter?.fulfil()
    }

    /// Ends every current and future wait.
    func finish() {
        let waiter = state.withLock { state in
            state.isFinished = true
            return state.waiter.take()
        }
        waiter?.fulfil()
    }

    /// Waits for a signal; one task at a time.
    ///
    /// - Returns: False once the signal is finished or the task was cancelled.
    func wait() async -> Bool {
        let promise = Promise<Void>()
        let goesOn = state.withLock { state in
            if state.isFinished || state.isSet || state.waiter != nil {
                state.isSet = false
                return true
            }
            state.waiter = promise
            return false
        }
        if !goesOn { await promise.waitUnlessCancelled() }
        if Task.isCancelled { finish() }
        return !state.withLock { $0.isFinished }
    }
}
