import Synchronization

/// An auto-reset event: wakes one waiting task; signals without a waiter coalesce into one.
///
/// A signal may be meant for some lanes only; they coalesce as well.
final class DispatchSignal: Sendable {
    private struct State {
        var isSet = false
        /// The lanes that the signals since ``DispatchSignal/takeMeant()`` are meant for; nil for all.
        var meant: Set<Int>? = []
        var isFinished = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    /// Wakes the waiting task, or else the next one that waits.
    ///
    /// - Parameter lane: Which lane the signal is meant for; nil for all of them.
    func set(for lane: Int? = nil) {
        let waiter = state.withLock { state in
            if let lane { state.meant?.insert(lane) } else { state.meant = nil }
            guard let waiter = state.waiter else {
                state.isSet = true
                return nil as CheckedContinuation<Void, Never>?
            }
            state.waiter = nil
            return waiter
        }
        waiter?.resume()
    }

    /// Which lanes the signals since the last call were meant for; nil for all.
    func takeMeant() -> Set<Int>? {
        state.withLock { state in
            defer { state.meant = [] }
            return state.meant
        }
    }

    /// Ends every wait, now and later.
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
