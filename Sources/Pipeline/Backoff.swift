/// Exponential delays with full jitter: a random part of `initial · 2^(attempt-1)`, bounded by `maximum`.
///
/// See "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015) for why the whole delay is random: it spreads
/// clients that failed together.
package struct Backoff: Sendable {
    /// The upper bound of the first delay.
    package var initial: Duration
    /// The upper bound of every delay.
    package var maximum: Duration

    /// Delays bounded by `initial` at first, doubling up to `maximum`.
    package init(initial: Duration, maximum: Duration) {
        self.initial = initial
        self.maximum = maximum
    }

    /// The delay before the given attempt.
    ///
    /// - Parameters:
    ///   - attempt: How many attempts have failed so far, from 1.
    ///   - random: A number in 0...1.
    /// - Returns: The part `random` of the attempt's ceiling.
    package func delay(attempt: Int, random: Double) -> Duration {
        ceiling(attempt: attempt) * random
    }

    /// The longest delay that ``delay(attempt:random:)`` can give for this attempt.
    package func ceiling(attempt: Int) -> Duration {
        var bound = initial
        var step = 1
        while step < attempt, bound < maximum {
            bound *= 2
            step += 1
        }
        return min(bound, maximum)
    }
}
