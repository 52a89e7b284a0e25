package import UpstreamKit

/// What a delivery's end asks of the dispatcher: a handler's outcome, or the meaning of its error.
package enum HandlerVerdict: Sendable, Hashable {
    /// Delete the delivery.
    case done
    /// Count the attempt; retry, not before `after`, or set aside once the attempts are used up.
    ///
    /// The handler has answered about this message, which proves that it works.
    case retry(after: Duration?, HandlerFailure)
    /// As ``retry(after:_:)``, and a sign that the handler itself is down: it counts for the circuit breaker.
    ///
    /// `hold` is the pause that the handler asks for, if any: no message is delivered to it for that long.
    case down(after: Duration?, hold: Duration? = nil, HandlerFailure)
    /// Set aside as a dead letter at once.
    case reject(HandlerFailure)
    /// Stop delivering to this handler until an operator resumes it; the attempt is not counted.
    case pause(HandlerFailure)
    /// The handler can't work now (program missing, no more processes): retry, not before `after`; not counted.
    case unavailable(after: Duration?, HandlerFailure)
    /// The handler had begun and was cut off from outside, for example by the loss of its connection.
    ///
    /// Not counted as an attempt, until that has happened to the same message too often.
    case interrupted(HandlerFailure)
    /// The task was cancelled by a shutdown: release the lease; the attempt is not counted.
    case cancelled

    package var failure: HandlerFailure? {
        switch self {
        case .retry(_, let failure), .down(_, _, let failure), .reject(let failure), .pause(let failure),
            .unavailable(_, let failure), .interrupted(let failure):
            failure
        case .done, .cancelled: nil
        }
    }

    /// Runs a handler on a message and judges the result; doesn't watch the deadline: the caller cancels the task.
    package static func of(
        _ handler: any UpstreamHandler,
        _ message: UpstreamMessage,
        _ context: HandlerContext
    ) async -> HandlerVerdict {
        do {
            return HandlerVerdict(try await handler.handle(message, context: context))
        } catch {
            return HandlerVerdict(error: error, isCancelled: Task.isCancelled)
        }
    }

    package init(_ outcome: HandlerOutcome) {
        switch outcome {
        case .done: self = .done
        case .retry(let after, let reason): self = .retry(after: after, HandlerFailure(reason ?? "retry asked for"))
        case .reject(let reason): self = .reject(HandlerFailure(reason))
        }
    }

    package init(error: any Error, isCancelled: Bool) {
        switch error {
        case let verdict as HandlerVerdictError: self = verdict.verdict
        case is CancellationError where isCancelled: self = .cancelled
        case is any PermanentFailure: self = .reject(HandlerFailure(error))
        default: self = isCancelled ? .cancelled : .retry(after: nil, HandlerFailure(error))
        }
    }
}

/// Lets a handler throw a verdict that ``HandlerOutcome`` has no case for.
package struct HandlerVerdictError: Error {
    package var verdict: HandlerVerdict

    package init(_ verdict: HandlerVerdict) {
        self.verdict = verdict
    }

    /// A failure of the message's attempt.
    package static func retry(_ group: String, _ detail: String) -> HandlerVerdictError {
        HandlerVerdictError(.retry(after: nil, HandlerFailure(group: group, detail: detail)))
    }

    /// A failure of the handler itself, which can't begin before `after`.
    package static func unavailable(after: Duration?, _ group: String, _ detail: String) -> HandlerVerdictError {
        HandlerVerdictError(.unavailable(after: after, HandlerFailure(group: group, detail: detail)))
    }
}
