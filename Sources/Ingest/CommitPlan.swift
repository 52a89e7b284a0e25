/// How one batch is committed: whole if possible, in parts if it times out or a row is rejected, and again after an
/// outage.
///
/// A pure value: it decides, ``IngestService`` acts. States and moves:
///
/// - *committing* the top range → `committed` pops it; `refused` replaces it by its halves, or marks a single row for
///   quarantine and commits it once more; `timedOut` cuts it, and all that follows, into smaller parts; `misdated`
///   stamps it anew and commits it again; `unavailable`, `timedOut` of a single row, and a second consecutive
///   `misdated` wait and commit the same range again. A marked row then loses its mark: a database that can't take the
///   quarantine's row has proved nothing about the message.
/// - *done* once no range is left.
package struct CommitPlan {
    package enum Action: Equatable {
        /// Commit these messages as one transaction; `isRetry` if an earlier attempt may have committed.
        case commit(Range<Int>, isRetry: Bool)
        /// The database can't commit now: wait for the delay of this attempt (from 1), then commit these, as a retry.
        case wait(attempt: Int, then: Range<Int>)
        /// This message alone was refused: mark it for quarantine, then commit it.
        case quarantine(Int, isRetry: Bool)
        /// The times of these were refused: stamp them anew, then commit them.
        case stamp(Range<Int>, isRetry: Bool)
        /// The database can't commit this message's quarantine either: remove the mark, wait for the delay of this
        /// attempt, then commit the message itself, as a retry.
        case clear(Int, attempt: Int)
        case done

        var isStamp: Bool {
            guard case .stamp = self else { return false }
            return true
        }
    }

    private struct Part {
        var range: Range<Int>
        /// Whether the outcome of an earlier attempt is unknown.
        var isRetry = false
    }

    /// Parts still to be committed; the last one is next.
    private var pending: [Part]
    private var attempt = 0
    /// The row currently marked for quarantine.
    private var marked: Int?
    /// The range last stamped anew, so that a database that refuses those times as well is waited for.
    private var stamped: Range<Int>?

    /// A plan for a batch of `count` messages, in one transaction.
    package init(count: Int) {
        pending = count > 0 ? [Part(range: 0..<count)] : []
    }

    /// A plan for messages of these sizes, in transactions of `ceiling` bytes each; a larger message goes alone.
    package init(sizes: [Int], ceiling: Int) {
        self.init(count: sizes.count)
        cut(sizes, ceiling)
    }

    package func begin() -> Action { next }

    package mutating func committed() -> Action {
        pending.removeLast()
        attempt = 0
        stamped = nil
        marked = nil
        return next
    }

    /// Records that the database could not commit the last range, or that the outcome is unknown.
    package mutating func unavailable() -> Action {
        guard let last = pending.indices.last else { return .done }
        pending[last].isRetry = true
        attempt += 1
        stamped = nil
        if let row = marked.take() { return .clear(row, attempt: attempt) }
        return .wait(attempt: attempt, then: pending[last].range)
    }

    /// Records that one of our timeouts ended the attempt; the outcome is unknown.
    ///
    /// `ceiling` is the most bytes of a transaction from now on, less than was tried: the first of the parts is next,
    /// at once; a single row waits.
    package mutating func timedOut(sizes: [Int], ceiling: Int) -> Action {
        guard let last = pending.last else { return .done }
        pending[pending.count - 1].isRetry = true
        cut(sizes, ceiling)
        guard last.range.count > 1 else { return unavailable() }
        // If the ceiling made it no smaller, halve it instead of repeating it.
        if pending.last?.range == last.range { halve() }
        attempt = 0
        return next
    }

    /// Records that a row's content was rejected; if a marked row's quarantine is, the environment is at fault.
    package mutating func refused() -> Action {
        guard let part = pending.last else { return .done }
        if part.range.count == 1 {
            let row = part.range.lowerBound
            guard marked != row else { return unavailable() }
            marked = row
            return .quarantine(row, isRetry: part.isRetry)
        }
        halve()
        attempt = 0
        return next
    }

    package mutating func misdated() -> Action {
        guard let part = pending.last, stamped != part.range else { return unavailable() }
        stamped = part.range
        return .stamp(part.range, isRetry: part.isRetry)
    }

    private var next: Action { pending.last.map { .commit($0.range, isRetry: $0.isRetry) } ?? .done }

    private mutating func halve() {
        guard let part = pending.popLast() else { return }
        let middle = part.range.lowerBound + part.range.count / 2
        pending.append(Part(range: middle..<part.range.upperBound, isRetry: part.isRetry))
        pending.append(Part(range: part.range.lowerBound..<middle, isRetry: part.isRetry))
    }

    /// Splits every pending part into parts of at most `ceiling` bytes; a larger message becomes its own part.
    private mutating func cut(_ sizes: [Int], _ ceiling: Int) {
        var parts: [Part] = []
        for part in pending.reversed() {
            var start = part.range.lowerBound
            var bytes = 0
            for index in part.range {
                if index > start, bytes + sizes[index] > ceiling {
                    parts.append(Part(range: start..<index, isRetry: part.isRetry))
                    start = index
                    bytes = 0
                }
                bytes += sizes[index]
            }
            parts.append(Part(range: start..<part.range.upperBound, isRetry: part.isRetry))
        }
        pending = parts.reversed()
    }
}
