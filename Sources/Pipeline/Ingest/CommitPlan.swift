/// How one batch gets into the database: whole if it can, in halves where a row is refused, again after an outage.
///
/// A pure value: it decides, ``IngestService`` acts. States and moves:
///
/// - *committing* the top range → `committed` pops it; `refused` replaces it by its halves, or, when it is a single
///   row, marks the row for quarantine and commits it once more; `unavailable` waits and commits the same range again.
/// - *done* once no range is left.
package struct CommitPlan {
    /// What to do next.
    package enum Action: Equatable {
        /// Commit these messages of the batch as one transaction.
        case commit(Range<Int>)
        /// The database can't commit now: wait for the delay of this attempt (from 1), then commit these.
        case wait(attempt: Int, then: Range<Int>)
        /// This message alone was refused: mark it for quarantine, then commit it.
        case quarantine(Int)
        /// All is committed.
        case done
    }

    /// Ranges still to be committed; the last one is next.
    private var pending: [Range<Int>]
    private var attempt = 0
    /// The single row that has been marked already, so that a second refusal can't loop.
    private var marked: Int?

    /// A plan for a batch of `count` messages.
    package init(count: Int) {
        pending = count > 0 ? [0..<count] : []
    }

    /// The first action.
    package func begin() -> Action { next }

    /// The range that was tried has committed.
    package mutating func committed() -> Action {
        pending.removeLast()
        attempt = 0
        return next
    }

    /// The database could not commit the range that was tried.
    package mutating func unavailable() -> Action {
        guard let range = pending.last else { return .done }
        attempt += 1
        return .wait(attempt: attempt, then: range)
    }

    /// The content of a row in the range that was tried was refused.
    ///
    /// A marked row that is refused again means that quarantine itself can't take it, which is the environment's
    /// fault and never the message's: wait.
    package mutating func refused() -> Action {
        guard let range = pending.last else { return .done }
        if range.count == 1 {
            guard marked != range.lowerBound else { return unavailable() }
            marked = range.lowerBound
            return .quarantine(range.lowerBound)
        }
        pending.removeLast()
        let middle = range.lowerBound + range.count / 2
        pending.append(middle..<range.upperBound)
        pending.append(range.lowerBound..<middle)
        attempt = 0
        return next
    }

    private var next: Action { pending.last.map(Action.commit) ?? .done }
}
