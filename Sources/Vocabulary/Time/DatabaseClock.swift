import Synchronization

/// The database's clock, read now and then and continued by the monotonic clock.
///
/// It stamps messages, so that nothing depends on a worker's clock. Until the first reading it follows the system's.
package final class DatabaseClock: Sendable {
    /// The change, in microseconds, that is certainly one; less may be a reading's error.
    package static let step: Int64 = 1_000_000

    /// The offset from the monotonic clock in microseconds.
    private let offset: Atomic<Int64>
    /// When the offset last changed so far that waiting messages are stamped anew, in nanoseconds of the monotonic clock;
    /// 0 for never.
    private let steppedAt = Atomic<UInt64>(0)
    private let latest = Mutex<ClockDifference?>(nil)
    private let monotonic: @Sendable () -> MonotonicTime

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
    package var difference: ClockDifference? { latest.withLock { $0 } }

    /// Takes a reading; the offset changes only if the reading rules it out, so that stamps don't jitter with latency.
    ///
    /// It takes the least offset that a reading allows, which later ones only raise: after the first, it goes back by
    /// ``step`` or more, or not at all. So messages that are stamped anew one after the other keep their order.
    package func learn(_ reading: ClockReading) {
        latest.withLock { latest in
            let isFirst = latest == nil
            latest = ClockDifference(
                asked: reading.asked.wall,
                database: reading.database,
                answered: reading.answered.wall
            )
            let lowest = reading.database.microseconds &- reading.answered.monotonic.microseconds
            let highest = reading.database.microseconds &- reading.asked.monotonic.microseconds
            let known = offset.load(ordering: .relaxed)
            guard known < lowest || known > highest && (isFirst || known &- highest >= Self.step) else { return }
            offset.store(lowest, ordering: .relaxed)
            // Stamps that are ahead by less are accepted, and those of later messages follow them (`ArrivalClock`).
            if lowest &- known >= Self.step || known &- lowest > StampLimits.ahead.microseconds {
                steppedAt.store(reading.answered.monotonic.nanoseconds, ordering: .relaxed)
            }
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
