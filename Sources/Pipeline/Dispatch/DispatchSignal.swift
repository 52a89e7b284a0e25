import Synchronization

/// Wakes one waiting task; signals given while nobody waits are kept as one.
final class DispatchSignal: Sendable {
    private struct State {
        var isSet = false
        var isFinished = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    /// Lets the waiting task go on, or the next one that comes to wait.
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

    /// Makes every wait, now and later, end at once.
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
