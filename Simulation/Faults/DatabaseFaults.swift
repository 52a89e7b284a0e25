import SimulatedDatabase
import Vocabulary

/// What goes wrong with statements, as planned: for a number of them, or for a time.
// Sendable: on the simulation's one thread.
final class DatabaseFaults: @unchecked Sendable {
    private let scheduler: Scheduler
    private var random: SplitMix
    private var stalledUntil: UInt64 = 0
    /// Replies to lose and errors to raise: of any statement, or, if true, of writers' alone.
    private var lostReplies: [Bool: Int] = [:]
    private var raised: [Bool: Int] = [:]
    private var unconfirmedUntil: UInt64 = 0

    /// The time after which a worker's own limit ends a statement.
    private static let limit = Duration.seconds(10)
    /// One of each class: a rollback, resources, an administrator, read-only, a system error.
    private static let states = ["40P01", "53200", "57P01", "25006", "58030", "57014"]

    init(_ scheduler: Scheduler, seed: UInt64, _ database: SimulatedDatabase) {
        self.scheduler = scheduler
        random = SplitMix(seed: seed, for: "statements")
        database.setFaults { [self] statement, _ in next(statement) }
    }

    func stall(for time: Duration) { stalledUntil = scheduler.now &+ time.nanoseconds }
    func breakOffWaits(for time: Duration) { unconfirmedUntil = scheduler.now &+ time.nanoseconds }
    func loseReplies(_ count: Int, ofWriters: Bool) { lostReplies[ofWriters, default: 0] += count }
    func raise(_ count: Int, ofWriters: Bool) { raised[ofWriters, default: 0] += count }

    func heal() { (stalledUntil, unconfirmedUntil, lostReplies, raised) = (0, 0, [:], [:]) }

    private static func take(_ counts: inout [Bool: Int], _ statement: Statement) -> Bool {
        for ofWriters in [true, false] where statement.isOfWriter || !ofWriters {
            guard let count = counts[ofWriters], count > 0 else { continue }
            counts[ofWriters] = count - 1
            return true
        }
        return false
    }

    private func next(_ statement: Statement) -> StatementFault? {
        if Self.take(&lostReplies, statement) {
            return StatementFault(.lost(isApplied: random.chance(0.5)))
        }
        if Self.take(&raised, statement) {
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
