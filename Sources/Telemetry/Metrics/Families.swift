/// One counter for each value of a closed label.
package struct CounterFamily<Label: MetricLabel>: Sendable {
    private let counters: [Counter]

    package init() {
        counters = Label.allCases.map { _ in Counter() }
    }

    /// The counter of one value.
    package subscript(_ label: Label) -> Counter { counters[label.rawValue] }
}

/// One gauge for each value of a closed label.
package struct GaugeFamily<Label: MetricLabel>: Sendable {
    private let gauges: [Gauge]

    package init() {
        gauges = Label.allCases.map { _ in Gauge() }
    }

    /// The gauge of one value.
    package subscript(_ label: Label) -> Gauge { gauges[label.rawValue] }
}

/// The metrics of one handler.
package struct HandlerMetrics: Sendable {
    /// Attempts by what became of them.
    package let deliveries = CounterFamily<DeliveryOutcome>()
    /// How long an attempt took, in seconds.
    package let duration = Histogram(bounds: Histogram.latencyBounds)
    /// Rows in `dead_letters`.
    package let deadLetters = Gauge()
    /// Age of the oldest delivery that waits, in seconds; 0 without one.
    package let oldestDeliveryAge = NumberGauge()
    /// Deliveries that wait or run, over all workers, counted up to 100,000.
    package let waiting = Gauge()
    /// What its circuit breaker is doing in this worker: the state's raw value.
    package let circuit = Gauge()
    /// 1 where it is paused, as far as this worker knows.
    package let paused = Gauge()

    package init() {}
}
