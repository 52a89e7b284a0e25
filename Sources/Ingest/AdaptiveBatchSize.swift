/// The bytes that a writer puts into one transaction, so that it commits before one of our timeouts cancels it.
///
/// A pure value. There is no ceiling until an attempt times out; the time that attempt took is the limit. The ceiling
/// is then half the size that timed out, and grows or shrinks with the share of the limit that commits take: a link or
/// disk that stays slow settles at a size that commits, and one that has recovered is back at whole batches after a few
/// commits.
package struct AdaptiveBatchSize: Sendable, Equatable {
    /// The least ceiling: below it a transaction's time hardly depends on its size.
    package static let floor = 16 << 10

    /// The most bytes in a transaction; nil for whole batches.
    package private(set) var ceiling: Int?
    /// The duration of the last attempt that timed out.
    private var limit = Duration.zero
    /// The largest batch: a ceiling above this is none.
    private let largest: Int

    /// Starts without a ceiling; `largest` is the most bytes in a batch of more than one message.
    package init(largest: Int) { self.largest = max(largest, Self.floor) }

    /// Records that an attempt of this size timed out; returns the new ceiling.
    package mutating func timedOut(bytes: Int, after duration: Duration) -> Int {
        limit = duration
        let half = max(min(bytes, ceiling ?? bytes) / 2, Self.floor)
        ceiling = half
        return half
    }

    package mutating func committed(bytes: Int, after duration: Duration) {
        // A commit far below the ceiling says nothing about it.
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
