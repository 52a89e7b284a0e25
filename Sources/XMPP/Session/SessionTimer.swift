import Vocabulary

/// A timer for the caller to set: one at a time, the last one counts.
package struct SessionTimer: Sendable, Equatable {
    /// Passed back when the timer fires, so that a late one is recognised and ignored.
    package var id: UInt64
    package var delay: Duration
}

/// A session's own timer: one that is set makes those before it late ones.
struct TimerSlot: Sendable {
    /// The last one's id; they count from 1.
    private(set) var id: UInt64 = 0
    /// When it fires, if known.
    private(set) var due: UInt64 = .max

    mutating func set(after delay: Duration, from now: UInt64? = nil) -> SessionTimer {
        id += 1
        due = now.map { $0 &+ delay.nanoseconds } ?? .max
        return SessionTimer(id: id, delay: delay)
    }

    mutating func set(at due: UInt64, now: UInt64) -> SessionTimer {
        set(after: .nanoseconds(Int64(clamping: due > now ? due - now : 0)), from: now)
    }

    mutating func cancel() { id += 1 }
}
