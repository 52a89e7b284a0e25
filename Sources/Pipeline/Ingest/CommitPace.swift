/// How many bytes one transaction of a writer holds, so that it is over before a limit of ours ends it.
///
/// A pure value. It has no ceiling until a try runs into the limit; the limit is as long as that try took. From then on the
/// ceiling is half of what was tried, and follows how much of the limit the commits take: a link or a disk that is slow
/// for long settles at a size that commits, and one that has recovered is back at whole batches after a few of them.
package struct CommitPace: Sendable, Equatable {
    /// No smaller: the rest of a transaction's time does not depend on its size any more.
    package static let floor = 16 << 10

    /// The most bytes of a transaction; nil for a batch as it comes.
    package private(set) var ceiling: Int?
    /// How long the last try took that ran into our limit.
    private var limit = Duration.zero
    /// What every batch is below: a ceiling above is none.
    private let largest: Int

    /// No ceiling yet.
    ///
    /// - Parameter largest: The most bytes of a batch, but for a single message that is larger.
    package init(largest: Int) { self.largest = max(largest, Self.floor) }

    /// A try of this size ran into our limit.
    ///
    /// - Returns: The new ceiling.
    package mutating func timedOut(bytes: Int, after duration: Duration) -> Int {
        limit = duration
        let half = max(min(bytes, ceiling ?? bytes) / 2, Self.floor)
        ceiling = half
        return half
    }

    /// A transaction of this size has committed.
    package mutating func committed(bytes: Int, after duration: Duration) {
        // One that is far below the ceiling tells nothing about it.
        guard let ceiling, bytes >= ceiling / 2 || duration > limit / 2 else { return }
        let next: Int
        if duration < limit / 4 {
            next = ceiling * 2
        } else if duration < limit / 2 {
            next = ceiling + ceiling / 8
        } else if duration > limit * 3 / 4 {
            next = max(min(ceiling, bytes) * 3 / 4, Self.floor)
        } else {
            next = ceiling
        }
        self.ceiling = next < largest ? next : nil
    }
}
