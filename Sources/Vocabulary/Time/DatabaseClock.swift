import Synchronization

/// The database's clock, read now and then and continued by the monotonic clock.
///
/// It stamps messages, so that nothing depends on a worker's clock. Until the first reading it follows the system's.
package final class DatabaseClock: Sendable {
    /// The change, in microseconds, from which the offset goes back, and messages that wait are stamped anew.
    package static let step: Int64 = 1_000_000

    /// The offset from the monotonic clock in microseconds.
    private let offset: Atomic<Int64>
    /// When the offset last changed so far that waiting messages are stamped anew, in nanoseconds of the monotonic clock;
    /// 0 for never.
    private let steppedAt = Atomic<UInt64>(0)
    private let readings = Mutex(Readings())
    private let monotonic: @Sendable () -> MonotonicTime

    private struct Readings {
        var latest: ClockDifference?
        /// When the reading was answered that last changed the offset.
        var changedAt = MonotonicTime(nanoseconds: 0)
        /// The latest time that was told before the offset went back, in microseconds: stamps go on from there, until the
        /// clock has caught up.
        var front = Int64.min
    }

    package init(_ start: ClockReading.Moment = .now, monotonic: @escaping @Sendable () -> MonotonicTime = { .now }) {
        offset = Atomic(start.wall.microseconds &- start.monotonic.microseconds)
        self.monotonic = monotonic
    }

    /// The current time in microseconds since 1970-01-01 UTC.
    package func now() -> Int64 { time(at: monotonic()) }

    /// The time at a past moment by the present offset.
    package func time(at moment: MonotonicTime) -> Int64 { moment.microseconds &+ offset.load(ordering: .relaxed) }

    /// New stamps for messages that wait.
    package var stamps: Stamps {
        let offset = offset.load(ordering: .relaxed)
        return Stamps(offset: offset, least: monotonic().microseconds &+ offset &- Stamps.oldest)
    }

    /// New stamps by one reading of a clock: another task may set it meanwhile.
    package struct Stamps {
        /// The age, in microseconds, of what has waited for longer than the database accepts.
        fileprivate static let oldest = (StampLimits.oldest - StampLimits.margin).microseconds

        fileprivate let offset: Int64
        fileprivate var least: Int64

        /// The new time of a message that was parsed at that moment, in microseconds since 1970 UTC; at least the
        /// oldest that the database accepts.
        package mutating func stamp(parsed: MonotonicTime) -> Int64 {
            let own = parsed.microseconds &+ offset
            guard own < least else { return own }
            defer { least += 1 }
            return least
        }
    }

    /// Whether stamps given at that moment predate a step, with a second's margin for those of other threads.
    package func hasStepped(since moment: MonotonicTime) -> Bool {
        let stepped = steppedAt.load(ordering: .relaxed)
        return stepped > 0 && moment.nanoseconds < stepped &+ 1_000_000_000
    }

    /// The difference at the last reading; nil before the first.
    package var difference: ClockDifference? { readings.withLock(\.latest) }

    /// Takes a reading; the offset changes only if the reading rules it out, so that stamps don't jitter with latency.
    ///
    /// It takes the least offset that a reading allows. For as long as messages may wait that are stamped anew after a
    /// step, it goes back by ``step`` or more, or not at all: so they keep their order.
    package func learn(_ reading: ClockReading) {
        readings.withLock { readings in
            let answered = reading.answered.monotonic.nanoseconds
            readings.latest = ClockDifference(
                asked: reading.asked.wall,
                database: reading.database,
                answered: reading.answered.wall
            )
            let lowest = reading.database.microseconds &- reading.answered.monotonic.microseconds
            let highest = reading.database.microseconds &- reading.asked.monotonic.microseconds
            let known = offset.load(ordering: .relaxed)
            // One that was asked for before the last change may be of before it.
            let isBack = known > highest && reading.asked.monotonic >= readings.changedAt
            let stepped = steppedAt.load(ordering: .relaxed)
            let waits = stepped > 0 && answered < stepped &+ UInt64(StampLimits.oldest.nanoseconds)
            guard known < lowest || isBack && (!waits || known &- highest >= Self.step) else { return }
            readings.changedAt = reading.answered.monotonic
            // A reading may have lain about.
            let told = max(reading.answered.monotonic, monotonic()).microseconds
            readings.front = max(readings.front, told &+ known)
            // Stamps that are ahead by less are accepted, and those of later messages follow them (`ArrivalClock`).
            let isFarBack = readings.front &- told &- lowest > StampLimits.ahead.microseconds
            if isFarBack { readings.front = .min }
            // First, so that nobody sees the new offset without the step.
            if isFarBack || lowest &- known >= Self.step { steppedAt.store(answered, ordering: .releasing) }
            offset.store(lowest, ordering: .releasing)
        }
    }
}

/// How far a message's time may be from the database's when it is stored.
///
/// Retention adds ``oldest``, so that each message is kept for its full time since its commit.
package enum StampLimits {
    /// The oldest time stored; a message that waited longer, in an outage, counts as received then.
    package static let oldest = Duration.seconds(3_600)
    package static let ahead = Duration.seconds(60)
    /// How much younger than ``oldest`` a new stamp is at least, for the time until it is stored.
    package static let margin = Duration.seconds(60)
}
