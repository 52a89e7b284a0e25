package import UpstreamKit
import Vocabulary

/// The decision about a delivery whose attempt has failed.
package enum RetryDecision: Sendable, Equatable {
    /// Try again after the delay.
    case again(after: Duration)
    /// The attempts are used up.
    case giveUp
}

extension RetryPolicy {
    /// Decides after a failed attempt.
    ///
    /// - Parameters:
    ///   - failures: The failed attempts, this one included; from 1.
    ///   - requested: The shortest wait that the handler asked for; ``maximum`` caps it.
    ///   - random: A number in 0...1: the fraction of the longest wait to take (full jitter).
    /// - Returns: The delay, or that the message is to be set aside.
    package func decide(failures: Int, requested: Duration?, random: Double) -> RetryDecision {
        guard failures < maxAttempts else { return .giveUp }
        let delay = Backoff(initial: initial, maximum: maximum).delay(attempt: failures, random: random)
        guard let requested else { return .again(after: delay) }
        return .again(after: min(max(requested, delay), maximum))
    }
}
