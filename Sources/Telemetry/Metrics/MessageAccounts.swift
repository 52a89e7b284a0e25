import Synchronization
package import Vocabulary

/// The accounts of received copies: received = stored + duplicate + conflict + quarantined + in flight, always.
///
/// One lock guards all counts, and is taken once for a whole read or batch.
package final class MessageAccounts: Sendable {
    package struct Snapshot: Sendable, Equatable {
        /// Copies received, by ``IncomingMessage.Kind``.
        package var received: [UInt64]
        /// Copies settled, by category and then by ``StoreOutcome``.
        package var settled: [UInt64]
        package var inFlight: Int

        package func received(_ kind: IncomingMessage.Kind) -> UInt64 { received[kind.index] }

        package func settled(category: Int, _ outcome: StoreOutcome) -> UInt64 {
            settled[category * StoreOutcome.allCases.count + outcome.index]
        }

        package func settled(_ outcome: StoreOutcome) -> UInt64 {
            stride(from: outcome.index, to: settled.count, by: StoreOutcome.allCases.count)
                .reduce(0) { $0 + settled[$1] }
        }
    }

    package let categories: CategoryLabels
    private let state: Mutex<Snapshot>

    package init(categories: CategoryLabels) {
        self.categories = categories
        let settled = categories.names.count * StoreOutcome.allCases.count
        state = Mutex(
            Snapshot(
                received: Array(repeating: 0, count: IncomingMessage.Kind.allCases.count),
                settled: Array(repeating: 0, count: settled),
                inFlight: 0
            )
        )
    }

    /// Counts copies read from the wire, before they are handed over.
    package func received(upstream: Int = 0, receipt: Int = 0, malformed: Int = 0) {
        state.withLock { state in
            state.received[IncomingMessage.Kind.upstream.index] += UInt64(upstream)
            state.received[IncomingMessage.Kind.receipt.index] += UInt64(receipt)
            state.received[IncomingMessage.Kind.malformed.index] += UInt64(malformed)
            state.inFlight += upstream + receipt + malformed
        }
    }

    /// Counts the outcomes of a committed batch; `copy` must be quick, since it runs under the lock.
    ///
    /// Call it before the acks are sent, so that no peer learns of an outcome that the metrics don't show. The category
    /// is an index of ``CategoryLabels/index(of:)``.
    package func settled(count: Int, _ copy: (Int) -> (category: Int, outcome: StoreOutcome)) {
        state.withLock { state in
            for index in 0..<count {
                let (category, outcome) = copy(index)
                state.settled[category * StoreOutcome.allCases.count + outcome.index] += 1
            }
            state.inFlight -= count
        }
    }

    package func snapshot() -> Snapshot {
        state.withLock { $0 }
    }
}
