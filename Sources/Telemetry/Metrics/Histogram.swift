import Synchronization
import Vocabulary

/// A distribution over fixed buckets; takes a lock per call, so pass many observations (the acks of a batch) in one.
package final class Histogram: Sendable {
    package struct Snapshot: Sendable, Equatable {
        /// Observations per bucket, not cumulative; the last bucket is above the highest bound.
        package var counts: [UInt64]
        package var sum: Double

        package init(counts: [UInt64], sum: Double) { (self.counts, self.sum) = (counts, sum) }

        package var count: UInt64 { counts.reduce(0, +) }

        /// The lowest bucket bound not exceeded by at least `share` (0...1) of the observations.
        ///
        /// Nil without observations, infinite if the share lies above the highest bound.
        package func bound(below share: Double, in bounds: [Double]) -> Double? {
            let wanted = share * Double(count)
            guard count > 0 else { return nil }
            var seen: UInt64 = 0
            for (index, bound) in bounds.enumerated() {
                seen += counts[index]
                if Double(seen) >= wanted { return bound }
            }
            return .infinity
        }
    }

    /// The buckets' upper bounds, ascending.
    package let bounds: [Double]
    private let state: Mutex<Snapshot>

    /// An empty histogram; the buckets' upper bounds are ascending, in the metric's base unit.
    package init(bounds: [Double]) {
        self.bounds = bounds
        state = Mutex(Snapshot(counts: Array(repeating: 0, count: bounds.count + 1), sum: 0))
    }

    package func observe(_ value: Double, count: Int = 1) {
        guard count > 0 else { return }
        let bucket = bucket(of: value)
        state.withLock { state in
            state.counts[bucket] += UInt64(count)
            state.sum += value * Double(count)
        }
    }

    package func observe(_ duration: Duration) {
        observe(duration.inSeconds)
    }

    /// Adds each value that `values` passes to its argument; it must be quick, since it runs under the lock.
    package func observe(each values: ((Double) -> Void) -> Void) {
        state.withLock { state in
            values { value in
                state.counts[bucket(of: value)] += 1
                state.sum += value
            }
        }
    }

    package func snapshot() -> Snapshot {
        state.withLock { $0 }
    }

    private func bucket(of value: Double) -> Int {
        var index = 0
        while index < bounds.count, value > bounds[index] { index += 1 }
        return index
    }
}

extension Histogram {
    /// Bounds for commit and ack latency: 250 µs to 30 s.
    package static let latencyBounds: [Double] = [
        0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    ]

    /// Bounds for rows in a batch.
    package static let sizeBounds: [Double] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
}
