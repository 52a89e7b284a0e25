package import UpstreamKit

/// How a worker dispatches; the defaults suit handlers of every speed.
package struct DispatchSettings: Sendable {
    /// How long a lease holds unless it is extended: how long the deliveries of a worker that died lie still.
    package var lease = Duration.seconds(60)
    /// How often leases are looked after, as a part of ``lease``.
    package var heartbeat: Duration { lease / 6 }
    /// How often the table is asked for work that nobody announced: retries that are due, and leases that ended.
    package var poll = Duration.seconds(1)
    /// The most deliveries that wait in memory for one handler, of each kind: handed over, and claimed.
    package var capacity = 2_000
    /// How many workers in a row may stop working while they hold a delivery until it is set aside; at least 3.
    package var crashLimit = 5
    /// The most settlements in one transaction.
    package var settlementLimit = 1_000
    /// How long a settlement may wait for others to join it.
    package var settlementLinger = Duration.milliseconds(5)
    /// How long a handler whose task was cancelled may take until its lease is left to end.
    package var hangGrace = Duration.seconds(10)
    /// How long running handlers may go on after a shutdown has begun, before they are cancelled.
    package var drain = Duration.seconds(5)
    /// How often the backlog is looked at for the metrics.
    package var statistics = Duration.seconds(10)
    /// When a failing handler is left in peace.
    package var breaker = CircuitBreaker.Settings()
    /// Who holds the leases, for people who look at the table.
    package var owner = "worker"

    package init() {}
}

/// What the dispatcher needs to know of one handler.
package struct LaneSettings: Sendable {
    /// The handler's name.
    package var name: String
    /// How many attempts may run at the same time.
    package var concurrency: Int
    /// Whether each device's messages are handed over one at a time, in arrival order.
    package var isOrdered: Bool
    /// When failed messages come again.
    package var retry: RetryPolicy
    /// The longest time for one attempt.
    package var timeout: Duration
    /// What all handlers of the worker share.
    package var dispatch: DispatchSettings

    /// The settings of a registered handler.
    package init(_ registration: HandlerRegistration, _ dispatch: DispatchSettings) {
        name = registration.name
        concurrency = registration.concurrency
        isOrdered = registration.ordering == .device
        retry = registration.retry
        timeout = registration.timeout
        self.dispatch = dispatch
    }
}
