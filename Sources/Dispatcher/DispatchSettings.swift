package import UpstreamKit

/// How a worker dispatches; the defaults suit fast and slow handlers.
package struct DispatchSettings: Sendable {
    /// How long a lease lasts unless extended: the time after which others take over a dead worker's deliveries.
    package var lease = Duration.seconds(60)
    package var heartbeat: Duration { lease / 6 }
    /// How often the table is polled for work without a notification: due retries and expired leases.
    package var poll = Duration.seconds(1)
    /// The most deliveries in memory for one handler, separately for those handed over by ingest, claimed ones, and
    /// claimed ones of replays.
    package var capacity = 2_000
    /// The most bytes of messages in memory for one handler, separately for those handed over and claimed ones.
    ///
    /// One message may exceed it.
    package var waitingBytes = 8 << 20
    /// How many consecutive workers may die while they hold a delivery before it becomes a dead letter; at least 4.
    package var crashLimit = 5
    /// The number of dead workers from which on a delivery is a suspect, and is claimed with few others.
    package var suspectFrom = 2
    /// The most suspects that a handler takes at once, after others did no harm.
    package var suspectsAtOnce = 64
    package var settlementLimit = 1_000
    /// How long a settlement may linger so that others join its transaction.
    package var settlementLinger = Duration.milliseconds(5)
    /// The fewest messages of a batch for which a handler's deliveries form a block instead of rows.
    package var blockLeast = 16
    /// How long a block may stay open; after a crash everything in it is delivered again, done or not.
    package var blockAge = Duration.milliseconds(250)
    /// How long a cancelled attempt may continue before its lease is no longer extended.
    package var hangGrace = Duration.seconds(10)
    /// How long running attempts may continue after shutdown began, before they are cancelled.
    package var drain = Duration.seconds(5)
    /// How often the backlog metrics are refreshed.
    package var statistics = Duration.seconds(10)
    package var breaker = CircuitBreaker.Settings()
    /// The lease owner's name in the table, for operators.
    package var owner = "worker"
    /// Whether settlements carry records for the history of attempts.
    package var recordsAttempts = false

    /// Whether deliveries may be kept as blocks: these are unpacked long before their lease has to be extended.
    var allowsBlocks: Bool { lease >= blockAge * 20 }

    package init() {}

    /// The settings for this many handlers: from the fifth on they share the memory of four, down to 1 MiB each.
    package func shared(by handlers: Int) -> DispatchSettings {
        var settings = self
        settings.waitingBytes = min(waitingBytes, max(1 << 20, 4 * waitingBytes / max(1, handlers)))
        return settings
    }
}

/// A handler's settings, with those shared by all handlers of the worker.
package struct LaneSettings: Sendable {
    /// The most messages in one call of an immediate handler.
    package static let mostAtOnce = 64

    package var registration: HandlerRegistration
    package var dispatch: DispatchSettings
    /// How many attempts may run at the same time.
    package var concurrency: Int
    /// The most messages in one call.
    package var batch = 1
    /// Whether a call should be short, since its messages wait for each other; a request's time hardly depends on them.
    package var keepsCallsShort = false
    /// The number of tasks that run them.
    package var slots: Int
    /// The number of dead workers from which on a delivery is a suspect.
    package var suspectFrom: Int
    /// The number of dead workers from which on it becomes a dead letter.
    package var crashLimit: Int

    /// Settings; one task gives an immediate handler many messages, whatever its concurrency.
    package init(_ registration: HandlerRegistration, _ dispatch: DispatchSettings, isImmediate: Bool = false) {
        (self.registration, self.dispatch) = (registration, dispatch)
        switch registration.body {
        case .function(_, let batch): (self.batch, keepsCallsShort) = (batch, true)
        case .handler(let handler): batch = (handler as? any BatchHandler)?.batch ?? 1
        }
        concurrency = isImmediate ? Self.mostAtOnce : registration.concurrency * batch
        slots = isImmediate ? 1 : registration.concurrency
        // A contained handler can't crash the worker, so only a fault of our own could be the cause, which is not
        // assumed before the others would have been set aside.
        suspectFrom = registration.isContained ? dispatch.crashLimit : dispatch.suspectFrom
        crashLimit = registration.isContained ? 2 * dispatch.crashLimit : dispatch.crashLimit
    }

    package var name: String { registration.name }

    /// How many calls may run at the same time, of as many messages as they take.
    var calls: Int { concurrency / batch }

    /// The rate at which this worker's attempts may begin: its own, or its share of all workers'; nil without one.
    var rate: HandlerRate? { registration.rate ?? registration.limit?.rate }

    /// Whether messages wait in the table until a rate or a share allows them, instead of under this worker's lease.
    var isLimited: Bool { registration.rate != nil || registration.limit != nil }

    /// Whether each device's messages are delivered one at a time, in order of arrival.
    package var isOrdered: Bool { registration.ordering == .device }

    /// Whether its deliveries may be kept as blocks: SQL functions complete rows, and ordered ones wait in rows.
    package var isPackable: Bool {
        if case .handler = registration.body { !isOrdered } else { false }
    }
}
