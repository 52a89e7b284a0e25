import UpstreamKit
package import Vocabulary

/// What the history of attempts keeps of an attempt (`upstream.attempts`), beside what its settlement says.
package struct AttemptRecord: Sendable, Equatable {
    /// How an attempt ended, as the column `outcome` says it.
    package enum Outcome: String, Sendable {
        /// The handler took the message.
        case done
        /// Counted, and to be tried again.
        case retry
        /// The handler rejected the message: a dead letter.
        case rejected
        /// The attempts are used up: a dead letter.
        case exhausted
        /// Not counted, and to be tried again.
        case released
    }

    /// How it ended.
    package var outcome: Outcome
    /// When it began, by this machine's clock.
    @FixedInstant package var started: ContinuousClock.Instant
    /// How long it took.
    package var took: Duration
    /// The message's `received_at`, in microseconds since 1970-01-01 UTC; 0 where only its row knows.
    package var receivedAt: Int64

    package init(outcome: Outcome, started: ContinuousClock.Instant, took: Duration, receivedAt: Int64) {
        self.outcome = outcome
        self.started = started
        self.took = took
        self.receivedAt = receivedAt
    }
}

extension AttemptRecord.Outcome {
    /// The history's name for an ending; nil where another worker decides, and its settlement counts.
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
    /// The message's `received_at`, in microseconds since 1970-01-01 UTC; 0 where the message is gone.
    var receivedAt: Int64 {
        switch content {
        case .received(let box): box.message.receivedAt
        case .stored(let message): message.receivedAtMicroseconds
        case .missing: 0
        }
    }
}
