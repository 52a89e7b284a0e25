import Synchronization
package import Vocabulary

/// A count of events since the process started; lock-free, safe from any thread.
package final class Counter: Sendable {
    private let total = Atomic<UInt64>(0)

    package init() {}

    /// Adds `count` events; zero and negative counts are ignored.
    package func increment(by count: Int = 1) {
        guard count > 0 else { return }
        total.wrappingAdd(UInt64(count), ordering: .relaxed)
    }

    package var value: UInt64 { total.load(ordering: .relaxed) }
}

/// A whole number that goes up and down; lock-free, safe from any thread.
package final class Gauge: Sendable {
    private let level = Atomic<Int>(0)

    package init() {}

    package func set(_ value: Int) {
        level.store(value, ordering: .relaxed)
    }

    /// Adds `difference`, which may be negative.
    package func add(_ difference: Int) {
        level.wrappingAdd(difference, ordering: .relaxed)
    }

    package var value: Int { level.load(ordering: .relaxed) }
}

/// A fractional number that goes up and down, NaN while unknown; lock-free, safe from any thread.
package final class NumberGauge: Sendable {
    private let bits: Atomic<UInt64>

    /// A gauge at this value; NaN, for unknown, satisfies no alert's condition.
    package init(_ value: Double = 0) { bits = Atomic(value.bitPattern) }

    package func set(_ value: Double) {
        bits.store(value.bitPattern, ordering: .relaxed)
    }

    package var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }
}

/// One counter for each value of a closed label.
package struct CounterFamily<Label: MetricLabel>: Sendable {
    private let counters: [Counter]

    package init() {
        counters = Label.allCases.map { _ in Counter() }
    }

    package subscript(_ label: Label) -> Counter { counters[label.index] }
}

package struct HandlerMetrics: Sendable {
    package let deliveries = CounterFamily<AttemptOutcome>()
    package let duration = Histogram(bounds: Histogram.latencyBounds)
    package let deadLetters = Gauge()
    /// In seconds; 0 if none waits.
    package let oldestDeliveryAge = NumberGauge()
    package let waiting = Gauge()
    /// The state's index.
    package let circuit = Gauge()
    package let paused = Gauge()

    package init() {}
}
