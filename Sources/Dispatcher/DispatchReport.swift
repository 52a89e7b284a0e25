package import Logging
package import Telemetry
package import Vocabulary

/// The dispatcher's metrics and log.
///
/// Log lines name the message's key and the failure's kind; a handler's own words may hold payload, and stay in the
/// table.
package struct DispatchReport: Sendable {
    /// The pauses between attempts while the database is unavailable.
    package static let retry = Backoff(initial: .milliseconds(100), maximum: .seconds(5))

    private let handlers: [String]
    private let handlerMetrics: [HandlerMetrics]
    private let metrics: Metrics
    private let logger: Logger
    private let letters: DeadLetterLog

    /// Makes a report on these handlers.
    ///
    /// - Parameters:
    ///   - handlers: The dispatched handlers, by lane; those unknown to `metrics` are not counted there.
    ///   - metrics: Counts deliveries and database errors.
    ///   - logger: Logs failures and changes of state.
    package init(handlers: [String], metrics: Metrics, logger: Logger) {
        self.handlers = handlers
        self.metrics = metrics
        self.logger = logger
        letters = DeadLetterLog(logger)
        handlerMetrics = handlers.map { name in
            metrics.handlers.firstIndex(of: name).map { metrics.handler($0) } ?? HandlerMetrics()
        }
    }

    func attemptEnded(
        _ action: DispatchStateMachine.FinishAction,
        _ end: AttemptEnd,
        _ delivery: Delivery,
        attempt: Int,
        took: Duration,
        _ lane: Int
    ) {
        handlerMetrics[lane].deliveries[DeliveryOutcome(action.ending)].increment()
        handlerMetrics[lane].duration.observe(took)
        guard action.ending != .done else { return }
        var fields: LogFields = [
            .handler: .string(handlers[lane]), .messageKey: .string(delivery.messageKey.description),
            .attempt: .int(attempt), .durationSeconds: .seconds(took),
        ]
        if let failure = Self.failure(end) { fields[.error] = .string(failure.logText) }
        switch action.ending {
        case .rejected, .exhausted: letters.add(handlers[lane], Self.failure(end), fields)
        case .lost:
            logger.event(.warning, .leaseLost, "an attempt outlived its lease; its outcome is ignored", fields)
        case .retry:
            logger.event(.info, .deliveryFailed, "an attempt failed and will be retried", fields)
        case .released:
            logger.event(.debug, .deliveryFailed, "a delivery was released without counting an attempt", fields)
        case .done: break
        }
    }

    /// Records successful attempts that began and ended together; `took` is the share of each.
    func attemptsDone(_ count: Int, took: Duration, _ lane: Int) {
        handlerMetrics[lane].deliveries[.done].increment(by: count)
        handlerMetrics[lane].duration.observe(took.inSeconds, count: count)
    }

    static func failure(_ end: AttemptEnd) -> HandlerFailure? {
        guard case .verdict(let verdict) = end else { return nil }
        return verdict.failure
    }

    /// Records deliveries that became dead letters without an attempt, or were released.
    func settledUnrun(_ settlements: [Settlement], _ lane: Int) {
        for settlement in settlements {
            switch settlement.outcome {
            case .dead(let failure, _):
                handlerMetrics[lane].deliveries[.exhausted].increment()
                var fields: LogFields = [
                    .handler: .string(handlers[lane]), .messageKey: .string(settlement.messageKey.description),
                ]
                fields[.error] = .string(failure.logText)
                letters.add(handlers[lane], failure, fields)
            case .release: handlerMetrics[lane].deliveries[.released].increment()
            case .done, .retry: break
            }
        }
    }

    /// Reports settlements that the table ignored, as other workers hold the leases now.
    func leasesLost(_ count: Int, _ lane: Int) {
        logger.event(
            .warning,
            .leaseLost,
            "settlements were ignored: other workers hold the leases now",
            [.handler: .string(handlers[lane]), .count: .int(count)]
        )
    }

    /// Logs dead letters that were only counted, if their minute is over.
    func logDue() { letters.logDue(.now) }

    /// Logs the dead letters that were only counted, at the end.
    func flush() { letters.logDue(nil) }

    // MARK: Handlers

    func show(_ activity: [HandlerActivity]) {
        for (metrics, handler) in zip(handlerMetrics, activity) {
            metrics.circuit.set(handler.circuit.index)
            metrics.paused.set(handler.isPaused ? 1 : 0)
        }
    }

    /// Reports that a breaker opened or closed, after an attempt with this end.
    func breaker(_ transition: CircuitBreaker.Transition, _ end: AttemptEnd?, _ lane: Int) {
        let failure = end.flatMap(Self.failure)
        switch transition {
        case .opened(let pause):
            var fields: LogFields = [.handler: .string(handlers[lane]), .durationSeconds: .seconds(pause)]
            if let failure { fields[.error] = .string(failure.logText) }
            let message: StaticString = "circuit breaker open: the handler is down; next probe after the pause"
            logger.event(.error, .handlerFailing, message, fields)
        case .reopened(let pause):
            let fields: LogFields = [.handler: .string(handlers[lane]), .durationSeconds: .seconds(pause)]
            logger.event(.debug, .handlerFailing, "circuit breaker open: a probe failed", fields)
        case .held(let pause):
            var fields: LogFields = [.handler: .string(handlers[lane]), .durationSeconds: .seconds(pause)]
            if let failure { fields[.error] = .string(failure.logText) }
            let message: StaticString = "circuit breaker open: the handler asked for a pause (Retry-After)"
            logger.event(.warning, .handlerFailing, message, fields)
        case .closed:
            logger.event(
                .notice,
                .handlerRecovered,
                "circuit breaker closed: the handler works again",
                [.handler: .string(handlers[lane])]
            )
        }
    }

    /// Reports that a handler was paused or resumed, here or elsewhere.
    func paused(_ isPaused: Bool, _ lane: Int) {
        let fields: LogFields = [.handler: .string(handlers[lane])]
        if isPaused {
            logger.event(.notice, .handlerPaused, "a handler is paused; its messages wait in the table", fields)
        } else {
            logger.event(.notice, .handlerResumed, "a handler was resumed", fields)
        }
    }

    /// Reports a change by operators or other workers.
    func changed(_ change: DispatchStateMachine.ControlChange, _ lane: Int) {
        switch change {
        case .paused: paused(true, lane)
        case .unpaused: paused(false, lane)
        case .held(let transition): breaker(transition, nil, lane)
        case .resumed:
            let message: StaticString = "circuit breaker closed: an operator resumed the handler"
            logger.event(.notice, .handlerResumed, message, [.handler: .string(handlers[lane])])
        }
    }

    /// Reports cancelled attempts that continue.
    func hanging(_ count: Int, _ lane: Int) {
        logger.event(
            .error,
            .handlerHanging,
            "a handler ignores cancellation and keeps its slots; restart the worker to free them",
            [.handler: .string(handlers[lane]), .count: .int(count)]
        )
    }

    func backlog(_ backlog: Backlog) {
        guard let lane = handlers.firstIndex(of: backlog.handler) else { return }
        handlerMetrics[lane].waiting.set(backlog.depth)
        handlerMetrics[lane].deadLetters.set(backlog.deadLetters)
        handlerMetrics[lane].oldestDeliveryAge.set(backlog.oldestAge / .seconds(1))
    }

    /// Reports a handler with deliveries that no worker takes.
    func unclaimed(_ handler: String) {
        logger.event(
            .warning,
            .handlerUnclaimed,
            "no worker runs this handler, and its messages wait: configure it, or remove it with `handlers remove`",
            [.handler: .string(handler)]
        )
    }

    /// Reports that the registration is gone.
    func registeringAgain() {
        logger.event(
            .notice,
            .handlerReregistered,
            "the database does not know this worker's handlers, as after a failover or a restore: registering them again"
        )
    }

    /// Reports a failed call to the database.
    ///
    /// Only the first of an outage is logged.
    func storeFailed(_ error: StoreError, isFirst: Bool) {
        metrics.databaseErrors[error.failureClass].increment()
        guard isFirst else { return }
        logger.event(
            .error,
            .databaseUnavailable,
            "the dispatcher cannot use the database; retrying",
            [.sqlstate: .string(error.sqlState ?? ""), .error: .string(error.message)]
        )
    }

    /// Reports that the database answers again.
    func recovered() {
        logger.event(.notice, .databaseRecovered, "the dispatcher can use the database again")
    }

    /// Reports that notifications don't arrive.
    func notificationsUnavailable() {
        logger.event(
            .warning,
            .notificationsUnavailable,
            "database notifications do not arrive (a pooler in transaction mode?); polling instead"
        )
    }
}

extension DeliveryOutcome {
    /// The metrics' name for an ending.
    fileprivate init(_ ending: DispatchStateMachine.Ending) {
        self =
            switch ending {
            case .done: .done
            case .retry: .retry
            case .rejected: .rejected
            case .exhausted: .exhausted
            case .released, .lost: .released
            }
    }
}
