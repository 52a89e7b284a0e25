package import Vocabulary

/// How an attempt ended: the handler's verdict, or what it did to the row itself.
package enum AttemptEnd: Sendable {
    case verdict(HandlerVerdict)
    /// Done, and its row deleted in the handler's own transaction.
    case settled
    /// Another worker holds the row.
    case lost

    var failure: HandlerFailure? {
        if case .verdict(let verdict) = self { verdict.failure } else { nil }
    }
}

/// What became of an attempt; the values of the history's column `outcome`.
package enum AttemptOutcome: String, Sendable {
    case done
    /// Counted, and to be retried.
    case retry
    /// The handler rejected the message: a dead letter.
    case rejected
    /// The attempts are used up: a dead letter.
    case exhausted
    /// Not counted, and to be retried.
    case released
    /// Another worker holds the lease now, and decides; not in the history.
    case lost
}

/// What the history keeps of an attempt (`upstream.attempts`), besides its settlement.
package struct AttemptRecord: Sendable, Equatable {
    package var outcome: AttemptOutcome
    /// When it began, by this machine's clock.
    @FixedInstant package var started: ContinuousClock.Instant
    package var took: Duration
    /// The message's `received_at`, in microseconds since 1970-01-01 UTC; 0 if only its row has it.
    package var receivedAt: Int64

    package init(outcome: AttemptOutcome, started: ContinuousClock.Instant, took: Duration, receivedAt: Int64) {
        self.outcome = outcome
        self.started = started
        (self.took, self.receivedAt) = (took, receivedAt)
    }
}
