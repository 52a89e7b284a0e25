package import UpstreamKit

/// How a worker dispatches; the defaults suit fast and slow handlers.
package struct DispatchSettings: Sendable {
    /// How long a lease holds unless extended: the time after which others take over a dead worker's deliveries.
    package var lease = Duration.seconds(60)
    /// How often leases are extended.
    package var heartbeat: Duration { lease / 6 }
    /// How often the table is polled for work without a notification: due retries and expired leases.
    package var poll = Duration.seconds(1)
    /// The most deliveries in memory for one handler, of each kind: handed over by ingest, and claimed.
    package var capacity = 2_000
    /// The most bytes of messages in memory for one handler, of each kind: handed over by ingest or a replay, and claimed.
    ///
    /// One message may go over it.
    package var waitingBytes = 8 << 20
    /// How many workers in a row may die while they hold a delivery before it becomes a dead letter; at least 4.
    package var crashLimit = 5
    /// From how many on a delivery may be the cause, and is claimed with few others.
    package var suspectFrom = 2
    /// The most such deliveries that a handler takes at once, after others of them did no harm.
    package var suspectsAtOnce = 64
    /// The most settlements in one transaction.
    package var settlementLimit = 1_000
    /// How long a settlement may linger so that others join its transaction.
    package var settlementLinger = Duration.milliseconds(5)
    /// The fewest messages of a batch for which a handler's deliveries are kept as a block; smaller ones get rows at once.
    package var blockLeast = 16
    /// How long a block may stay open: then what is left of it is unpacked into rows.
    ///
    /// After a crash everything in an open block is delivered again, done or not.
    package var blockAge = Duration.milliseconds(250)
    /// How long a cancelled attempt may go on before its lease is no longer extended.
    package var hangGrace = Duration.seconds(10)
    /// How long running attempts may go on after shutdown has begun, before they are cancelled.
    package var drain = Duration.seconds(5)
    /// How often the backlog metrics are refreshed.
    package var statistics = Duration.seconds(10)
    /// When the circuit breaker opens, and for how long.
    package var breaker = CircuitBreaker.Settings()
    /// The lease owner's name in the table, for operators.
    package var owner = "worker"
    /// Whether settlements carry what the history of attempts keeps.
    package var recordsAttempts = false

    package init() {}

    /// The same for so many handlers: from the fifth on they share what four may keep, down to 1 MiB each.
    package func shared(by handlers: Int) -> DispatchSettings {
        var settings = self
        settings.waitingBytes = min(waitingBytes, max(1 << 20, 4 * waitingBytes / max(1, handlers)))
        return settings
    }
}

/// What the dispatcher needs to know of one handler.
package struct LaneSettings: Sendable {
    /// The handler's name.
    package var name: String
    /// How many attempts may run at the same time.
    package var concurrency: Int
    /// How many tasks run them.
    package var slots: Int
    /// Whether each device's messages are handed over one at a time, in arrival order.
    package var isOrdered: Bool
    /// Whether its deliveries may be kept as blocks: a database function completes rows, and what is ordered waits in rows.
    package var isPackable: Bool
    /// When failed messages come again.
    package var retry: RetryPolicy
    /// How many attempts may begin in a time; nil for any number.
    package var rate: HandlerRate?
    /// The longest time for one attempt.
    package var timeout: Duration
    /// From how many dead workers on a delivery may be the cause.
    package var suspectFrom: Int
    /// From how many on it becomes a dead letter.
    package var crashLimit: Int
    /// What all handlers of the worker share.
    package var dispatch: DispatchSettings

    /// The settings of a registered handler.
    package init(_ registration: HandlerRegistration, _ dispatch: DispatchSettings) {
        name = registration.name
        concurrency = registration.concurrency
        slots = registration.concurrency
        isOrdered = registration.ordering == .device
        isPackable =
            switch registration.body {
            case .handler: registration.ordering == .none
            case .function: false
            }
        retry = registration.retry
        rate = registration.rate
        timeout = registration.timeout
        // Elsewhere the cause: only a fault of our own, which is not assumed before the others would have been set aside.
        suspectFrom = registration.isContained ? dispatch.crashLimit : dispatch.suspectFrom
        crashLimit = registration.isContained ? 2 * dispatch.crashLimit : dispatch.crashLimit
        self.dispatch = dispatch
    }
}
