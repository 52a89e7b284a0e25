import Synchronization

/// Accounts for delivered copies: received = stored + duplicate + conflict + quarantined + in flight, in every snapshot.
///
/// One lock guards all counts, so no reader sees the two sides differ. Each call takes a whole read or a whole batch: two
/// locks per batch, not per message.
package final class MessageAccounts: Sendable {
    /// All counts at one moment.
    package struct Snapshot: Sendable, Equatable {
        /// Copies received, by ``CopyKind``.
        package var received: [UInt64]
        /// Copies settled, by category and then by ``MessageOutcome``.
        package var settled: [UInt64]
        /// Copies received and not yet settled.
        package var inFlight: Int

        /// Copies received of one kind.
        package func received(_ kind: CopyKind) -> UInt64 { received[kind.rawValue] }

        /// Copies of one category that ended with one outcome.
        package func settled(category: Int, _ outcome: MessageOutcome) -> UInt64 {
            settled[category * MessageOutcome.allCases.count + outcome.rawValue]
        }

        /// Copies of all categories that ended with one outcome.
        package func settled(_ outcome: MessageOutcome) -> UInt64 {
            stride(from: outcome.rawValue, to: settled.count, by: MessageOutcome.allCases.count)
                .reduce(0) { $0 + settled[$1] }
        }
    }

    /// The values of the label `category`.
    package let categories: CategoryLabels
    private let state: Mutex<Snapshot>

    package init(categories: CategoryLabels) {
        self.categories = categories
        let settled = categories.names.count * MessageOutcome.allCases.count
        state = Mutex(
            Snapshot(
                received: Array(repeating: 0, count: CopyKind.allCases.count),
                settled: Array(repeating: 0, count: settled),
                inFlight: 0
            )
        )
    }

    /// Copies have been read from the wire and are on their way to the database.
    ///
    /// Call it before they are handed over, so that none is settled before it was received.
    package func received(upstream: Int = 0, receipt: Int = 0, malformed: Int = 0) {
        state.withLock { state in
            state.received[CopyKind.upstream.rawValue] += UInt64(upstream)
            state.received[CopyKind.receipt.rawValue] += UInt64(receipt)
            state.received[CopyKind.malformed.rawValue] += UInt64(malformed)
            state.inFlight += upstream + receipt + malformed
        }
    }

    /// A batch has committed: its copies are no longer in flight, and each has an outcome.
    ///
    /// Call it before the acks are sent, so that no peer learns of an outcome that the metrics don't show.
    ///
    /// - Parameters:
    ///   - count: The number of copies in the batch.
    ///   - copy: Gives the category's index (``CategoryLabels/index(of:)``) and the outcome of each. Must be quick: it
    ///     runs under the lock.
    package func settled(count: Int, _ copy: (Int) -> (category: Int, outcome: MessageOutcome)) {
        state.withLock { state in
            for index in 0..<count {
                let (category, outcome) = copy(index)
                state.settled[category * MessageOutcome.allCases.count + outcome.rawValue] += 1
            }
            state.inFlight -= count
        }
    }

    /// All counts, of the same moment.
    package func snapshot() -> Snapshot {
        state.withLock { $0 }
    }
}
