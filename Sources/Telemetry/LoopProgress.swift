import Synchronization

/// What one loop of the worker is doing, for the watchdog: a loop that works for too long without a step hangs.
///
/// Waiting is no sign of that, for work or for somebody else: a database that doesn't answer is not the loop's fault, and a
/// restart would not mend it. Lock-free; one loop writes, anybody reads.
package final class LoopProgress: Sendable {
    /// What a loop may be doing.
    package enum Phase: UInt64, Sendable {
        /// Waits for work.
        case idle
        /// Waits for the database, which has time limits of its own.
        case awaiting
        /// Works by itself, which takes milliseconds.
        case working
    }

    /// The loop's name, for the log.
    package let name: String

    private static let origin = ContinuousClock.now
    /// The phase in the two lowest bits, above them the microseconds from ``origin`` to its beginning.
    private let state: Atomic<UInt64>

    /// A loop that waits for work.
    package init(_ name: String) {
        self.name = name
        state = Atomic(Self.packed(.idle, .now))
    }

    /// The loop takes a step: from now on it does this.
    package func enter(_ phase: Phase, now: ContinuousClock.Instant = .now) {
        state.store(Self.packed(phase, now), ordering: .relaxed)
    }

    /// What it is doing.
    package var phase: Phase { Phase(rawValue: state.load(ordering: .relaxed) & 3) ?? .idle }

    /// For how long it has been working without a step; zero where it waits.
    package func silence(now: ContinuousClock.Instant = .now) -> Duration {
        let value = state.load(ordering: .relaxed)
        return value & 3 == Phase.working.rawValue ? Self.age(value, now) : .zero
    }

    /// How long ago it took its last step.
    package func age(now: ContinuousClock.Instant = .now) -> Duration {
        Self.age(state.load(ordering: .relaxed), now)
    }

    private static func age(_ value: UInt64, _ now: ContinuousClock.Instant) -> Duration {
        max(.zero, now - (origin + .microseconds(Int64(value >> 2))))
    }

    private static func packed(_ phase: Phase, _ now: ContinuousClock.Instant) -> UInt64 {
        let age = max(.zero, now - origin).components
        return UInt64(age.seconds * 1_000_000 + age.attoseconds / 1_000_000_000_000) << 2 | phase.rawValue
    }
}
