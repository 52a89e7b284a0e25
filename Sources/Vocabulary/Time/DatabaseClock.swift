import Synchronization

/// The database's clock as this process knows it: read now and then, and carried on between two readings by the monotonic clock.
///
/// Messages are stamped by it, so that neither the day that they are kept in nor the order of a device's messages depends on a worker's
/// clock, and a clock that is set moves no stamp. Until the first reading it shows the system's clock.
package final class DatabaseClock: Sendable {
    /// From a change of this much on, what waits is stamped anew; less is what a reading is uncertain by.
    package static let step: Int64 = 1_000_000

    /// What to add to the monotonic clock, in microseconds.
    private let offset: Atomic<Int64>
    /// When it last changed by ``step`` or more, in nanoseconds of the monotonic clock; 0 for never.
    private let steppedAt = Atomic<UInt64>(0)
    private let latest = Mutex<ClockDifference?>(nil)
    private let monotonic: @Sendable () -> MonotonicTime

    /// A clock without a reading.
    ///
    /// - Parameters:
    ///   - start: The system's clocks.
    ///   - monotonic: The monotonic clock.
    package init(
        _ start: ClockReading.Moment = .now,
        monotonic: @escaping @Sendable () -> MonotonicTime = { .now }
    ) {
        offset = Atomic(start.wall.microseconds &- start.monotonic.microseconds)
        self.monotonic = monotonic
    }

    /// Its time now, in microseconds since 1970-01-01 UTC.
    package func now() -> Int64 { time(at: monotonic()) }

    /// What it showed at a moment, as far as is known now.
    package func time(at moment: MonotonicTime) -> Int64 { moment.microseconds &+ offset.load(ordering: .relaxed) }

    /// Whether stamps that were given at a moment may be wrong by what has been learned since.
    ///
    /// A second more, for those that were given on other threads meanwhile.
    package func hasStepped(since moment: MonotonicTime) -> Bool {
        let stepped = steppedAt.load(ordering: .relaxed)
        return stepped > 0 && moment.nanoseconds < stepped &+ 1_000_000_000
    }

    /// How far the system's clock was from the database's when it was read last; nil before the first reading.
    package var difference: ClockDifference? { latest.withLock { $0 } }

    /// Takes a reading: a clock that it leaves possible is kept, so that stamps don't jitter by what answers take.
    package func learn(_ reading: ClockReading) {
        latest.withLock { latest in
            latest = ClockDifference(
                asked: reading.asked.wall,
                database: reading.database,
                answered: reading.answered.wall
            )
            let lowest = reading.database.microseconds &- reading.answered.monotonic.microseconds
            let highest = reading.database.microseconds &- reading.asked.monotonic.microseconds
            let known = offset.load(ordering: .relaxed)
            guard known < lowest || known > highest else { return }
            let found = lowest &+ (highest &- lowest) / 2
            offset.store(found, ordering: .relaxed)
            if (found &- known).magnitude >= UInt64(Self.step) {
                steppedAt.store(reading.answered.monotonic.nanoseconds, ordering: .relaxed)
            }
        }
    }
}

/// How far a message's time may be from the database's when it is stored.
///
/// What is kept by age is kept for ``oldest`` longer, so that no message is dropped before its time has passed since its commit.
package enum StampLimits {
    /// The oldest time that is stored; what has waited for longer, in an outage, counts as received then.
    package static let oldest = Duration.seconds(3_600)
    /// How far ahead a time may be.
    package static let ahead = Duration.seconds(60)
    /// How much younger than ``oldest`` a new stamp is at least, for the time until it is stored.
    package static let margin = Duration.seconds(60)
}
