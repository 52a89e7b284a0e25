import Synchronization

/// An auto-reset event: wakes one waiting task; signals without a waiter coalesce into one.
final class DispatchSignal: Sendable {
    private struct State {
        var isSet = false
        var isFinished = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    /// Wakes the waiting task, or else the next one to wait.
    func set() {
        let waiter = state.withLock { state in
            guard let waiter = state.waiter else {
                state.isSet = true
                return nil as CheckedContinuation<Void, Never>?
            }
            state.waiter = nil
            return waiter
        }
        waiter?.resume()
    }

    /// Ends every current and future wait.
    func finish() {
        let waiter = state.withLock { state in
            state.isFinished = true
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Waits for a signal; one task at a time.
    ///
    /// - Returns: False once the signal is finished or the task was cancelled.
    func wait() async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state in
                    if state.isFinished || state.isSet || state.waiter != nil {
                        state.isSet = false
                        return true
                    }
                    state.waiter = continuation
                    return false
                }
                if goesOn { continuation.resume() }
            }
        } onCancel: {
            finish()
        }
        return !state.withLock { $0.isFinished }
    }
}
