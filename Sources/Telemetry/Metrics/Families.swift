/// One counter for each value of a closed label.
package struct CounterFamily<Label: MetricLabel>: Sendable {
    private let counters: [Counter]

    package init() {
        counters = Label.allCases.map { _ in Counter() }
    }

    package subscript(_ label: Label) -> Counter { counters[label.rawValue] }
}

/// One gauge for each value of a closed label.
package struct GaugeFamily<Label: MetricLabel>: Sendable {
    private let gauges: [Gauge]

    package init() {
        gauges = Label.allCases.map { _ in Gauge() }
    }

    package subscript(_ label: Label) -> Gauge { gauges[label.rawValue] }
}

package struct HandlerMetrics: Sendable {
    package let deliveries = CounterFamily<DeliveryOutcome>()
    /// Duration of attempts in seconds.
    package let duration = Histogram(bounds: Histogram.latencyBounds)
    package let deadLetters = Gauge()
    /// Age of the oldest waiting delivery in seconds; 0 if none waits.
    package let oldestDeliveryAge = NumberGauge()
    /// Deliveries waiting or running, over all workers, counted up to 100,000.
    package let waiting = Gauge()
    /// The state of its circuit breaker in this worker: the raw value.
    package let circuit = Gauge()
    /// 1 if it is paused, as far as this worker knows.
    package let paused = Gauge()

    package init() {}
}
