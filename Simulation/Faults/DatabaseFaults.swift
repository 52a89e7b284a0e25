import SimulatedDatabase
import Vocabulary

/// What goes wrong with statements, as planned: for a number of them, or for a time.
// Sendable: on the simulation's one thread.
final class DatabaseFaults: @unchecked Sendable {
    private let scheduler: Scheduler
    private var random: SplitMix
    private var stalledUntil: UInt64 = 0
    private var lostReplies = 0
    private var raised = 0
    private var unconfirmedUntil: UInt64 = 0

    /// The time after which a worker's own limit ends a statement.
    private static let limit = Duration.seconds(10)
    /// One of each class: a rollback, resources, an administrator, read-only, a system error.
    private static let states = ["40P01", "53200", "57P01", "25006", "58030", "57014"]

    init(_ scheduler: Scheduler, seed: UInt64, _ database: SimulatedDatabase) {
        self.scheduler = scheduler
        random = SplitMix(seed: seed, for: "statements")
        database.setFaults { [self] _, _ in next() }
    }

    func stall(for time: Duration) { stalledUntil = scheduler.now &+ time.nanoseconds }
    func loseReplies(_ count: Int) { lostReplies += count }
    func breakOffWaits(for time: Duration) { unconfirmedUntil = scheduler.now &+ time.nanoseconds }
    func raise(_ count: Int) { raised += count }
    func heal() { (stalledUntil, lostReplies, raised, unconfirmedUntil) = (0, 0, 0, 0) }

    private func next() -> StatementFault? {
        if lostReplies > 0 {
            lostReplies -= 1
            return StatementFault(.lost(isApplied: random.chance(0.5)))
        }
        if raised > 0 {
            raised -= 1
            return StatementFault(.raised(Self.states[random.below(Self.states.count)]))
        }
        if unconfirmedUntil > scheduler.now { return StatementFault(.unconfirmed) }
        guard stalledUntil > scheduler.now else { return nil }
        let rest = Duration.nanoseconds(Int64(stalledUntil - scheduler.now))
        guard rest > Self.limit else { return StatementFault(delay: rest) }
        // What our cancel finds may have committed.
        return StatementFault(delay: Self.limit, .timedOut(isApplied: random.chance(0.5)))
    }
}
