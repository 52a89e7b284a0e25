import Synchronization
import Vocabulary

/// The progress of one of the worker's loops, for the watchdog: a loop that works for too long without a step hangs.
///
/// Waiting never counts as hanging. Lock-free; one loop writes, anybody reads.
package final class LoopProgress: Sendable {
    package enum Phase: UInt64, Sendable {
        /// Waits for work.
        case idle
        /// Waits for the database, which has its own time limits.
        case awaiting
        /// Works by itself, which takes milliseconds.
        case working
    }

    package let name: String

    private static let origin = ContinuousClock.now
    /// The phase in the two lowest bits; above them, when it began, in microseconds since ``origin``.
    private let state: Atomic<UInt64>

    /// A loop that waits for work.
    package init(_ name: String) {
        self.name = name
        state = Atomic(Self.packed(.idle, .now))
    }

    package func enter(_ phase: Phase, now: ContinuousClock.Instant = .now) {
        state.store(Self.packed(phase, now), ordering: .relaxed)
    }

    package var phase: Phase { Phase(rawValue: state.load(ordering: .relaxed) & 3) ?? .idle }

    /// The time since the last step of a working loop; zero if it waits.
    package func silence(now: ContinuousClock.Instant = .now) -> Duration {
        let value = state.load(ordering: .relaxed)
        return value & 3 == Phase.working.rawValue ? Self.age(value, now) : .zero
    }

    package func age(now: ContinuousClock.Instant = .now) -> Duration {
        Self.age(state.load(ordering: .relaxed), now)
    }

    private static func age(_ value: UInt64, _ now: ContinuousClock.Instant) -> Duration {
        max(.zero, now - (origin + .microseconds(Int64(value >> 2))))
    }

    private static func packed(_ phase: Phase, _ now: ContinuousClock.Instant) -> UInt64 {
        UInt64(max(.zero, now - origin).microseconds) << 2 | phase.rawValue
    }
}
