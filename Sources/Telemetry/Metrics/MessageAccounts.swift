import Synchronization

/// The accounts of received copies: received = stored + duplicate + conflict + quarantined + in flight, in every
/// snapshot.
///
/// One lock guards all counts, so the two sides always agree. Each call takes a whole read or batch: two locks per
/// batch, not per message.
package final class MessageAccounts: Sendable {
    package struct Snapshot: Sendable, Equatable {
        /// Copies received, by ``CopyKind``.
        package var received: [UInt64]
        /// Copies settled, by category and then by ``MessageOutcome``.
        package var settled: [UInt64]
        /// Copies received and not yet settled.
        package var inFlight: Int

        package func received(_ kind: CopyKind) -> UInt64 { received[kind.rawValue] }

        package func settled(category: Int, _ outcome: MessageOutcome) -> UInt64 {
            settled[category * MessageOutcome.allCases.count + outcome.rawValue]
        }

        /// Copies of all categories that ended with one outcome.
        package func settled(_ outcome: MessageOutcome) -> UInt64 {
            stride(from: outcome.rawValue, to: settled.count, by: MessageOutcome.allCases.count)
                .reduce(0) { $0 + settled[$1] }
        }
    }

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

    /// Counts copies read from the wire.
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

    /// Counts the outcomes of a committed batch; `copy` must be quick, since it runs under the lock.
    ///
    /// Call it before the acks are sent, so that no peer learns of an outcome that the metrics don't show. The category
    /// is an index of ``CategoryLabels/index(of:)``.
    package func settled(count: Int, _ copy: (Int) -> (category: Int, outcome: MessageOutcome)) {
        state.withLock { state in
            for index in 0..<count {
                let (category, outcome) = copy(index)
                state.settled[category * MessageOutcome.allCases.count + outcome.rawValue] += 1
            }
            state.inFlight -= count
        }
    }

    package func snapshot() -> Snapshot {
        state.withLock { $0 }
    }
}
