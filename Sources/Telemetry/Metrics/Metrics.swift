package import Vocabulary

/// Every metric of the worker, made once.
///
/// What counts events here never blocks; ``render()`` writes the text that Prometheus scrapes. The names stand in
/// ``MetricName``.
package final class Metrics: Sendable {
    /// The configured senders, in their order: the label `sender`.
    package let senders: [String]
    /// The configured handlers, in their order: the label `handler`.
    package let handlers: [String]
    /// The worker's version.
    package let version: String

    /// Connections by sender and state.
    private let connectionGauges: [GaugeFamily<ConnectionState>]
    /// Copies received, settled and in flight: the kinds upstream, receipt and malformed, and all outcomes.
    package let messages: MessageAccounts
    /// The stanzas that ``messages`` doesn't keep.
    package let stanzas = CounterFamily<StanzaLabel>()
    /// Acks by what became of them.
    package let acks = CounterFamily<AckOutcome>()
    /// Stanza parsed to ack written, in seconds.
    package let ackLatency = Histogram(bounds: Histogram.latencyBounds)
    /// How long the transaction of a batch took, in seconds.
    package let commitDuration = Histogram(bounds: Histogram.latencyBounds)
    /// Commits that have been found to wait for a standby's confirmation.
    package let commitsWaitingForStandby = Gauge()
    /// How many transactions old the oldest transaction id is; NaN until it is known.
    package let transactionAge = NumberGauge(.nan)
    /// Days after today that have a partition of `messages`, without a gap; NaN until it is known.
    package let partitionsAhead = NumberGauge(.nan)
    /// When the last complete run of retention began, in seconds since 1970; 0 without one, NaN until it is known.
    package let retentionLastRun = NumberGauge(.nan)
    /// Expired partitions that this run had to keep, as deliveries needed them; NaN until it is known.
    package let retentionHeld = NumberGauge(.nan)
    /// Bytes that the database's disk has left; NaN where that can't be seen from here.
    package let diskFree = NumberGauge(.nan)
    /// The certificates that were seen.
    package let certificates = SeenCertificates()
    /// How far the machine's clock is ahead of the database's, in seconds; NaN until it is known.
    package let clockAhead = NumberGauge(.nan)
    /// Replays that this worker runs.
    package let replaysRunning = Gauge()
    /// Copies in a committed batch.
    package let batchMessages = Histogram(bounds: Histogram.sizeBounds)
    /// Database errors by class.
    package let databaseErrors = CounterFamily<DatabaseErrorClass>()
    /// Connections opened again, by the reason the last one ended.
    package let reconnects = CounterFamily<ReconnectReason>()
    /// Recorded spans by what became of them.
    package let spans = CounterFamily<SpanOutcome>()
    private let handlerMetrics: [HandlerMetrics]

    /// All metrics at zero.
    ///
    /// - Parameters:
    ///   - senders: The configured sender ids.
    ///   - categories: The category names that handlers are configured for.
    ///   - handlers: The configured handlers' names.
    ///   - version: The worker's version, for `upstream_build_info`.
    package init(senders: [String], categories: [String], handlers: [String], version: String) {
        self.senders = senders
        self.handlers = handlers
        self.version = version
        connectionGauges = senders.map { _ in GaugeFamily() }
        messages = MessageAccounts(categories: CategoryLabels(categories))
        handlerMetrics = handlers.map { _ in HandlerMetrics() }
    }

    /// The number of connections in one state, of the sender at this place in ``senders``.
    package func connections(sender: Int, state: ConnectionState) -> Gauge {
        connectionGauges[sender][state]
    }

    /// The metrics of the handler at this place in ``handlers``.
    package func handler(_ index: Int) -> HandlerMetrics {
        handlerMetrics[index]
    }
}
