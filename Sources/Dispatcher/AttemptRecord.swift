import UpstreamKit
package import Vocabulary

/// What the history keeps of an attempt (`upstream.attempts`), besides its settlement.
package struct AttemptRecord: Sendable, Equatable {
    /// The values of the column `outcome`.
    package enum Outcome: String, Sendable {
        /// Handled.
        case done
        /// Counted, and to be retried.
        case retry
        /// The handler rejected the message: a dead letter.
        case rejected
        /// The attempts are used up: a dead letter.
        case exhausted
        /// Not counted, and to be retried.
        case released
    }

    package var outcome: Outcome
    /// When it began, by this machine's clock.
    @FixedInstant package var started: ContinuousClock.Instant
    package var took: Duration
    /// The message's `received_at`, in microseconds since 1970-01-01 UTC; 0 if only its row has it.
    package var receivedAt: Int64

    package init(outcome: Outcome, started: ContinuousClock.Instant, took: Duration, receivedAt: Int64) {
        self.outcome = outcome
        self.started = started
        self.took = took
        self.receivedAt = receivedAt
    }
}

extension AttemptRecord.Outcome {
    /// The history's name for an ending; nil if another worker's settlement counts.
    init?(_ ending: DispatchStateMachine.Ending) {
        switch ending {
        case .done: self = .done
        case .retry: self = .retry
        case .rejected: self = .rejected
        case .exhausted: self = .exhausted
        case .released: self = .released
        case .lost: return nil
        }
    }
}

extension Delivery {
    /// The message's `received_at`, in microseconds since 1970-01-01 UTC; 0 if the message is gone.
    var receivedAt: Int64 {
        switch content {
        case .received(let box): box.message.receivedAt
        case .stored(let message): message.receivedAtMicroseconds
        case .missing: 0
        }
    }
}
