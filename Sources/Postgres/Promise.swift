import Dispatch
import Synchronization

/// A value that one task awaits and another thread delivers, at most once.
final class Promise<Value: Sendable>: Sendable {
    private enum State {
        /// Neither the waiter nor the value has come.
        case empty
        case awaited(CheckedContinuation<Value?, Never>)
        /// The value came, or the waiter gave up: later calls are ignored.
        case done(Value?)
    }

    private let state = Mutex(State.empty)

    /// Delivers the value; nil ends the wait without one.
    ///
    /// - Returns: Whether this was the first call; others are ignored.
    @discardableResult
    func fulfil(_ value: Value?) -> Bool {
        let (isFirst, waiter) = state.withLock { state -> (Bool, CheckedContinuation<Value?, Never>?) in
            switch state {
            case .empty:
                state = .done(value)
                return (true, nil)
            case .awaited(let waiter):
                state = .done(nil)
                return (true, waiter)
            case .done: return (false, nil)
            }
        }
        waiter?.resume(returning: value)
        return isFirst
    }

    /// Waits, once, for the value; nil when the task is cancelled or the time is over.
    func value(milliseconds: Int? = nil) async -> Value? {
        if let milliseconds {
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds)) { self.fulfil(nil) }
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let result = state.withLock { state -> Value?? in
                    guard case .done(let value) = state else {
                        state = .awaited(continuation)
                        return nil
                    }
                    return .some(value)
                }
                if let result { continuation.resume(returning: result) }
            }
        } onCancel: {
            fulfil(nil)
        }
    }
}
