import Synchronization

/// The books on delivered copies: received = stored + duplicate + conflict + quarantined + in flight, at every moment.
///
/// Everything is under one lock and moves in one critical section, so no reader, however unlucky, sees the two sides
/// differ. Both calls take a whole read or a whole batch: two locks per batch, not per message.
package final class MessageAccounts: Sendable {
    /// The books at one moment.
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
    /// To be called before they are handed over, so that none is settled before it was received.
    package func received(upstream: Int = 0, receipt: Int = 0, malformed: Int = 0) {
        state.withLock { state in
            state.received[CopyKind.upstream.rawValue] += UInt64(upstream)
            state.received[CopyKind.receipt.rawValue] += UInt64(receipt)
            state.received[CopyKind.malformed.rawValue] += UInt64(malformed)
            state.inFlight += upstream + receipt + malformed
        }
    }

    /// A batch has committed: its copies leave the flight with an outcome each.
    ///
    /// To be called before the acks go out, so that no peer learns of an outcome that the metrics don't show.
    ///
    /// - Parameters:
    ///   - count: The number of copies in the batch.
    ///   - copy: Gives the category's index (``CategoryLabels/index(of:)``) and the outcome of each. Must be quick: the
    ///     lock is held meanwhile.
    package func settled(count: Int, _ copy: (Int) -> (category: Int, outcome: MessageOutcome)) {
        state.withLock { state in
            for index in 0..<count {
                let (category, outcome) = copy(index)
                state.settled[category * MessageOutcome.allCases.count + outcome.rawValue] += 1
            }
            state.inFlight -= count
        }
    }

    /// The books, all of the same moment.
    package func snapshot() -> Snapshot {
        state.withLock { $0 }
    }
}
