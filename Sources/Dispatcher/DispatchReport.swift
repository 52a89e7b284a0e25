import Logging
import Telemetry
import Vocabulary

/// The dispatcher's metrics and log; ``HandlerReport`` has those of one handler.
///
/// Log lines have the message's key and the failure's kind: a handler's own words may hold payload.
struct DispatchReport: Sendable {
    let metrics: Metrics
    let logger: Logger
    let letters: DeadLetterLog

    init(_ metrics: Metrics, _ logger: Logger) {
        (self.metrics, self.logger) = (metrics, logger)
        letters = DeadLetterLog(logger)
    }

    func unclaimed(_ handler: String) {
        logger.event(
            .warning,
            .handlerUnclaimed,
            "no worker runs this handler, and its messages wait: configure it, or remove it with `handlers remove`",
            [.handler: .string(handler)]
        )
    }

    func registeringAgain() {
        logger.event(
            .notice,
            .handlerReregistered,
            "the database does not know this worker's handlers, as after a failover or a restore: registering them again"
        )
    }

    /// Reports a failed call to the database; only the first of an outage is logged.
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

    func recovered() {
        logger.event(.notice, .databaseRecovered, "the dispatcher can use the database again")
    }

    func notificationsUnavailable() {
        logger.event(
            .warning,
            .notificationsUnavailable,
            "database notifications do not arrive (a pooler in transaction mode?); polling instead"
        )
    }
}

struct HandlerReport: Sendable {
    private let handler: String
    private let metrics: HandlerMetrics
    private let shared: DispatchReport

    init(_ handler: String, _ shared: DispatchReport) {
        (self.handler, self.shared) = (handler, shared)
        // A handler unknown to the metrics is not counted there.
        let index = shared.metrics.handlers.firstIndex(of: handler)
        metrics = index.map { shared.metrics.handler($0) } ?? HandlerMetrics()
    }

    private func event(
        _ level: Logger.Level,
        _ event: EventName,
        _ message: StaticString,
        _ fields: LogFields = [:],
        _ failure: HandlerFailure? = nil
    ) {
        shared.logger.event(level, event, message, complete(fields, failure))
    }

    private func complete(_ fields: LogFields, _ failure: HandlerFailure?) -> LogFields {
        var fields = fields
        fields[.handler] = .string(handler)
        if let failure { fields[.error] = .string(failure.logText) }
        return fields
    }

    func attemptEnded(
        _ action: DispatchStateMachine.FinishAction,
        _ failure: HandlerFailure?,
        _ attempt: DispatchStateMachine.Attempt,
        took: Duration
    ) {
        // An attempt whose lease was lost counts as released.
        metrics.deliveries[action.ending ?? .released].increment()
        metrics.duration.observe(took)
        guard action.ending != .done else { return }
        let key = attempt.delivery.messageKey.description
        let fields: LogFields = [
            .messageKey: .string(key), .attempt: .int(attempt.number), .durationSeconds: .seconds(took),
        ]
        switch action.ending {
        case .rejected, .exhausted: shared.letters.add(handler, failure, complete(fields, failure))
        case nil:
            event(.warning, .leaseLost, "an attempt outlived its lease; its outcome is ignored", fields, failure)
        case .retry: event(.info, .deliveryFailed, "an attempt failed and will be retried", fields, failure)
        case .released:
            let message: StaticString = "a delivery was released without counting an attempt"
            event(.debug, .deliveryFailed, message, fields, failure)
        case .done: break
        }
    }

    /// Records successful attempts that began and ended together; `took` is the share of each.
    func attemptsDone(_ count: Int, took: Duration) {
        metrics.deliveries[.done].increment(by: count)
        metrics.duration.observe(took.inSeconds, count: count)
    }

    /// Records deliveries that became dead letters without an attempt, or were released.
    func settledUnrun(_ settlements: [Settlement]) {
        for settlement in settlements {
            switch settlement.outcome {
            case .dead(let failure, _):
                metrics.deliveries[.exhausted].increment()
                let fields: LogFields = [.messageKey: .string(settlement.messageKey.description)]
                shared.letters.add(handler, failure, complete(fields, failure))
            case .release: metrics.deliveries[.released].increment()
            case .done, .retry: break
            }
        }
    }

    func leasesLost(_ count: Int) {
        let message: StaticString = "settlements were ignored: other workers hold the leases now"
        event(.warning, .leaseLost, message, [.count: .int(count)])
    }

    func show(_ activity: HandlerActivity) {
        metrics.circuit.set(activity.circuit.index)
        metrics.paused.set(activity.isPaused ? 1 : 0)
    }

    func breaker(_ transition: CircuitBreaker.Transition, _ failure: HandlerFailure?) {
        switch transition {
        case .opened(let pause):
            let message: StaticString = "circuit breaker open: the handler is down; next probe after the pause"
            event(.error, .handlerFailing, message, [.durationSeconds: .seconds(pause)], failure)
        case .reopened(let pause):
            let message: StaticString = "circuit breaker open: a probe failed"
            event(.debug, .handlerFailing, message, [.durationSeconds: .seconds(pause)])
        case .held(let pause):
            let message: StaticString = "circuit breaker open: the handler asked for a pause (Retry-After)"
            event(.warning, .handlerFailing, message, [.durationSeconds: .seconds(pause)], failure)
        case .closed: event(.notice, .handlerRecovered, "circuit breaker closed: the handler works again")
        case .confirmed: event(.debug, .handlerRecovered, "the handler fails in another worker, and works here")
        }
    }

    func paused() { event(.notice, .handlerPaused, "a handler is paused; its messages wait in the table") }

    func changed(_ change: DispatchStateMachine.ControlChange) {
        switch change {
        case .paused: paused()
        case .unpaused: event(.notice, .handlerResumed, "a handler was resumed")
        case .held(let transition): breaker(transition, nil)
        case .doubted(let isOpen):
            let message: StaticString = "the circuit breaker of another worker changed: the next attempt is a probe"
            event(.debug, isOpen ? .handlerFailing : .handlerRecovered, message)
        case .resumed:
            event(.notice, .handlerResumed, "circuit breaker closed: an operator resumed the handler")
        }
    }

    func hanging(_ count: Int) {
        let message: StaticString =
            "a handler ignores cancellation and keeps its slots; restart the worker to free them"
        event(.error, .handlerHanging, message, [.count: .int(count)])
    }

    func backlog(_ backlog: Backlog) {
        metrics.waiting.set(backlog.depth)
        metrics.deadLetters.set(backlog.deadLetters)
        metrics.oldestDeliveryAge.set(backlog.oldestAge / .seconds(1))
    }
}
