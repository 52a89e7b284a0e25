import Synchronization

/// Whether a batch is likely to hold ids that the ledger knows, by those before it.
///
/// Copies come in rows, as when a server sends again what was not acked. `Benchmarks/Store/known.py` measures both ways to insert.
final class KnownIDs: Sendable {
    /// The known ids of the last batch.
    private let last = Atomic<Int>(0)

    var isLikely: Bool { last.load(ordering: .relaxed) > 0 }

    /// Tells how many rows of a batch were new.
    func inserted(_ new: Int, of count: Int) { last.store(count - new, ordering: .relaxed) }
}
