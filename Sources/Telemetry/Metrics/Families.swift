/// One counter for each value of a closed label.
package struct CounterFamily<Label: MetricLabel>: Sendable {
    private let counters: [Counter]

    package init() {
        counters = Label.allCases.map { _ in Counter() }
    }

    package subscript(_ label: Label) -> Counter { counters[label.index] }
}

/// One gauge for each value of a closed label.
package struct GaugeFamily<Label: MetricLabel>: Sendable {
    private let gauges: [Gauge]

    package init() {
        gauges = Label.allCases.map { _ in Gauge() }
    }

    package subscript(_ label: Label) -> Gauge { gauges[label.index] }
}

package struct HandlerMetrics: Sendable {
    package let deliveries = CounterFamily<DeliveryOutcome>()
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
