package import Vocabulary

/// All metrics of the worker, which ``MetricName`` describes; counting never blocks.
package final class Metrics: Sendable {
    /// In configured order.
    package let senders: [String]
    package let handlers: [String]
    package let version: String

    /// By sender, then by state.
    private let connectionGauges: [[Gauge]]
    private let receivedCounters: [Counter]
    package let messages: MessageAccounts
    /// Stanzas that ``messages`` doesn't count.
    package let stanzas = CounterFamily<StanzaLabel>()
    package let acks = CounterFamily<AckOutcome>()
    package let ackLatency = Histogram(bounds: Histogram.latencyBounds)
    package let commitDuration = Histogram(bounds: Histogram.latencyBounds)
    package let commitsWaitingForStandby = Gauge()
    // Those below are NaN while unknown.
    package let transactionAge = NumberGauge(.nan)
    package let slotBytes = NumberGauge(.nan)
    package let slotShare = NumberGauge(.nan)
    package let partitionsAhead = NumberGauge(.nan)
    package let retentionLastRun = NumberGauge(.nan)
    package let retentionHeld = NumberGauge(.nan)
    package let diskFree = NumberGauge(.nan)
    package let clockAhead = NumberGauge(.nan)
    package let certificates = SeenCertificates()
    package let replaysRunning = Gauge()
    package let batchMessages = Histogram(bounds: Histogram.sizeBounds)
    package let databaseErrors = CounterFamily<DatabaseErrorClass>()
    package let reconnects = CounterFamily<ReconnectReason>()
    package let spans = CounterFamily<SpanOutcome>()
    private let handlerMetrics: [HandlerMetrics]

    /// All metrics at zero; the categories are those that handlers are configured for.
    package init(senders: [String], categories: [String], handlers: [String], version: String) {
        self.senders = senders
        self.handlers = handlers
        self.version = version
        connectionGauges = senders.map { _ in ConnectionState.allCases.map { _ in Gauge() } }
        receivedCounters = senders.map { _ in Counter() }
        messages = MessageAccounts(categories: CategoryLabels(categories))
        handlerMetrics = handlers.map { _ in HandlerMetrics() }
    }

    /// The number of connections in one state, for the sender at this index of ``senders``.
    package func connections(sender: Int, state: ConnectionState) -> Gauge {
        connectionGauges[sender][state.index]
    }

    /// The copies received from the sender at this index of ``senders``, for the samples.
    package func received(sender: Int) -> Counter { receivedCounters[sender] }

    package func handler(_ index: Int) -> HandlerMetrics {
        handlerMetrics[index]
    }
}
