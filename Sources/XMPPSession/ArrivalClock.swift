import Synchronization
package import Vocabulary

/// Gives every received copy its `received_at`: wall-clock microseconds, each used once by a worker, so that the store
/// can tell a duplicate from its own earlier commit whose reply was lost.
///
/// After a step back of up to ``maximumStepBack``, times continue from the last one, a microsecond per copy. A larger
/// step is followed at once, since the clock had been ahead, and messages would be dated into the future; only then can
/// a time repeat.
package final class ArrivalClock: Sendable {
    /// The largest step back that is bridged, in microseconds: a minute.
    package static let maximumStepBack: Int64 = 60_000_000

    private let last = Atomic<Int64>(0)
    private let lastMoment = Atomic<Int64>(0)
    private let wall: @Sendable () -> Int64
    private let elapsed: @Sendable () -> MonotonicTime

    /// A clock over the system's clocks, or over the given sources: microseconds since 1970 UTC, and monotonic time.
    package init(
        wall: @escaping @Sendable () -> Int64 = { Timestamp.now.microseconds },
        monotonic: @escaping @Sendable () -> MonotonicTime = { .now }
    ) {
        (self.wall, elapsed) = (wall, monotonic)
    }

    package func now() -> Int64 { wall() }

    /// A unique moment of the monotonic clock, in nanoseconds, a microsecond from any other: `now`, or as little later as
    /// possible.
    package func uniqueMoment(near now: UInt64) -> UInt64 {
        UInt64(Self.advance(lastMoment) { max(Int64(now), $0 &+ 1_000) })
    }

    /// Nanoseconds of the monotonic clock, by which connections measure time.
    func monotonic() -> UInt64 { elapsed().nanoseconds }

    /// A unique time: `now`, or as little later as possible.
    package func unique(near now: Int64) -> Int64 {
        Self.advance(last) { now < $0 &- Self.maximumStepBack ? now : max(now, $0 &+ 1) }
    }

    /// Replaces the last value by the one that follows it, whoever else does, and returns that.
    @inline(__always)
    private static func advance(_ last: borrowing Atomic<Int64>, _ following: (Int64) -> Int64) -> Int64 {
        var seen = last.load(ordering: .relaxed)
        while true {
            let next = following(seen)
            let (done, original) = last.weakCompareExchange(expected: seen, desired: next, ordering: .relaxed)
            if done { return next }
            seen = original
        }
    }
}
