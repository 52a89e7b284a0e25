import Synchronization

/// Whether a batch probably holds ids known to the ledger, judging by the previous one.
///
/// Duplicates come in runs, as when a server resends what was not acked. `Benchmarks/Store/known.py` measures both ways
/// to insert.
final class KnownIDs: Sendable {
    /// The number of known ids in the last batch.
    private let last = Atomic<Int>(0)

    var isLikely: Bool { last.load(ordering: .relaxed) > 0 }

    /// Records how many rows of a batch were new.
    func inserted(_ new: Int, of count: Int) { last.store(count - new, ordering: .relaxed) }
}
