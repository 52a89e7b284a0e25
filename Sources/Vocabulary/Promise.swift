import Dispatch
import Synchronization

/// A value that one task awaits and any thread delivers, once: the base of all waits of tasks for other threads.
package final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case empty
        case awaited(CheckedContinuation<Value, Never>)
        /// The value is there; later ones are dropped.
        case fulfilled(Value)
    }

    private let state = Mutex(State.empty)

    package init() {}

    package var isFulfilled: Bool {
        state.withLock { state in
            if case .fulfilled = state { true } else { false }
        }
    }

    /// Whether a task waits; for tests.
    var isAwaited: Bool {
        state.withLock { state in
            if case .awaited = state { true } else { false }
        }
    }

    /// Delivers the value; only the first call counts, and returns true.
    @discardableResult
    package func fulfil(_ value: Value) -> Bool {
        let (isFirst, waiter) = state.withLock { state -> (Bool, CheckedContinuation<Value, Never>?) in
            defer { if case .fulfilled = state {} else { state = .fulfilled(value) } }
            return switch state {
            case .empty: (true, nil)
            case .awaited(let waiter): (true, waiter)
            case .fulfilled: (false, nil)
            }
        }
        waiter?.resume(returning: value)
        return isFirst
    }

    /// Waits for the value, even if the task is cancelled; for one task.
    package var value: Value {
        get async {
            await withCheckedContinuation { continuation in
                let value = state.withLock { state -> Value? in
                    if case .fulfilled(let value) = state { return value }
                    state = .awaited(continuation)
                    return nil
                }
                if let value { continuation.resume(returning: value) }
            }
        }
    }

    /// Waits for the value, or delivers the other one when the task is cancelled or the time is up; for one task.
    package func value(or other: Value, within limit: Duration? = nil) async -> Value {
        if let limit {
            DispatchQueue.global().asyncAfter(deadline: .now() + limit.inSeconds) { self.fulfil(other) }
        }
        return await withTaskCancellationHandler {
            await value
        } onCancel: {
            fulfil(other)
        }
    }
}

extension Promise<Void> {
    package func fulfil() { fulfil(()) }

    /// Waits, even if the task is cancelled.
    package func wait() async { await value }

    /// Waits until the task is cancelled.
    package func waitUnlessCancelled() async { await value(or: ()) }
}
