import Synchronization
import Vocabulary

/// Gives every received copy its `received_at`: wall-clock microseconds, each used once.
///
/// Because no two copies of a worker share a time, the store can tell a duplicate from its own earlier commit whose
/// reply was lost: the ledger row then holds this copy's own time. (Copies that two workers get in the same microsecond
/// are stored once, and each worker counts its own as stored.) After a step back of up to ``maximumStepBack``, times
/// continue from the last one, a microsecond per copy. After a larger step, the clock is followed at once: it had been
/// ahead (wrong network time, a resumed virtual machine), and messages would be dated into the future until it caught
/// up. Only then can a time repeat.
package final class ArrivalClock: Sendable {
    /// The largest step back that is bridged, in microseconds: a minute.
    package static let maximumStepBack: Int64 = 60_000_000

    private let last = Atomic<Int64>(0)
    private let wall: @Sendable () -> Int64

    /// A clock over the system's wall clock, or over the given source of microseconds since 1970 UTC.
    package init(wall: @escaping @Sendable () -> Int64 = { Timestamp.now.microseconds }) {
        self.wall = wall
    }

    package func now() -> Int64 { wall() }

    /// A unique time: `now`, or as little later as possible.
    ///
    /// If `now` is more than ``maximumStepBack`` behind the last one, it is `now`, which may repeat a time.
    package func unique(near now: Int64) -> Int64 {
        var seen = last.load(ordering: .relaxed)
        while true {
            let next = now < seen &- Self.maximumStepBack ? now : max(now, seen &+ 1)
            let (done, original) = last.weakCompareExchange(
                expected: seen,
                desired: next,
                ordering: .relaxed
            )
            if done { return next }
            seen = original
        }
    }
}
