package import Vocabulary

/// All metrics of the worker.
///
/// Counting never blocks; ``render()`` writes the text that Prometheus scrapes. The names are in ``MetricName``.
package final class Metrics: Sendable {
    /// The configured senders in order: the label `sender`.
    package let senders: [String]
    /// The configured handlers in order: the label `handler`.
    package let handlers: [String]
    package let version: String

    private let connectionGauges: [GaugeFamily<ConnectionState>]
    /// Copies received (kinds upstream, receipt and malformed), settled by outcome, and in flight.
    package let messages: MessageAccounts
    /// Stanzas that ``messages`` doesn't count.
    package let stanzas = CounterFamily<StanzaLabel>()
    package let acks = CounterFamily<AckOutcome>()
    /// The time from a stanza parsed to its ack written, in seconds.
    package let ackLatency = Histogram(bounds: Histogram.latencyBounds)
    /// The time of a batch's transaction, in seconds.
    package let commitDuration = Histogram(bounds: Histogram.latencyBounds)
    /// Commits found waiting for a standby's confirmation.
    package let commitsWaitingForStandby = Gauge()
    /// The age of the oldest transaction id in transactions; NaN while unknown.
    package let transactionAge = NumberGauge(.nan)
    /// Consecutive days after today with a partition of `messages`; NaN while unknown.
    package let partitionsAhead = NumberGauge(.nan)
    /// The start of the last complete retention run, in seconds since 1970; 0 if there was none, NaN while unknown.
    package let retentionLastRun = NumberGauge(.nan)
    /// Expired partitions that this run had to keep because deliveries needed them; NaN while unknown.
    package let retentionHeld = NumberGauge(.nan)
    /// Free bytes on the database's disk; NaN if not visible from here.
    package let diskFree = NumberGauge(.nan)
    package let certificates = SeenCertificates()
    /// How far the machine's clock is ahead of the database's, in seconds; NaN while unknown.
    package let clockAhead = NumberGauge(.nan)
    /// Replays that this worker runs.
    package let replaysRunning = Gauge()
    /// Copies in a committed batch.
    package let batchMessages = Histogram(bounds: Histogram.sizeBounds)
    package let databaseErrors = CounterFamily<DatabaseErrorClass>()
    /// Connections opened again, by the reason why the last one ended.
    package let reconnects = CounterFamily<ReconnectReason>()
    package let spans = CounterFamily<SpanOutcome>()
    private let handlerMetrics: [HandlerMetrics]

    /// All metrics at zero; the categories are those that handlers are configured for.
    package init(senders: [String], categories: [String], handlers: [String], version: String) {
        self.senders = senders
        self.handlers = handlers
        self.version = version
        connectionGauges = senders.map { _ in GaugeFamily() }
        messages = MessageAccounts(categories: CategoryLabels(categories))
        handlerMetrics = handlers.map { _ in HandlerMetrics() }
    }

    /// The number of connections in one state, for the sender at this index of ``senders``.
    package func connections(sender: Int, state: ConnectionState) -> Gauge {
        connectionGauges[sender][state]
    }

    /// The metrics of the handler at this index of ``handlers``.
    package func handler(_ index: Int) -> HandlerMetrics {
        handlerMetrics[index]
    }
}
