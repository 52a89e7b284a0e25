/// Exponential delays with full jitter: a random part of `initial · 2^(attempt-1)`, bounded by `maximum`.
///
/// See "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015) for why the whole delay is random: it spreads
/// clients that failed together. A value without clock or randomness of its own; no number of failures and no bound makes
/// it overflow.
package struct Backoff: Hashable, Sendable {
    /// The upper bound of the first delay.
    package var initial: Duration
    /// The upper bound of every delay.
    package var maximum: Duration
    /// The lower bound of every delay, so that no run of luck makes a hot loop.
    package var minimum: Duration

    /// Delays bounded by `initial` at first, doubling up to `maximum`.
    package init(initial: Duration, maximum: Duration, minimum: Duration = .zero) {
        self.initial = initial
        self.maximum = maximum
        self.minimum = minimum
    }

    /// The delay after a number of failures.
    ///
    /// - Parameters:
    ///   - attempt: How many attempts have failed so far, from 1.
    ///   - random: A number in 0...1; what lies outside counts as the nearer end, and what is no number as 1.
    /// - Returns: The part `random` of the ceiling.
    package func delay(attempt: Int, random: Double) -> Duration {
        let part = random.isFinite ? min(max(random, 0), 1) : 1
        return max(ceiling(attempt: attempt) * part, minimum)
    }

    /// The delay after a number of failures, with a generator's next number.
    package func delay(attempt: Int, using generator: inout some RandomNumberGenerator) -> Duration {
        delay(attempt: attempt, random: Double.random(in: 0...1, using: &generator))
    }

    /// The longest delay that ``delay(attempt:random:)`` can give after so many failures.
    package func ceiling(attempt: Int) -> Duration {
        var bound = min(initial, maximum)
        guard bound > .zero, attempt > 1 else { return bound }
        for _ in 1..<attempt {
            // Compared with the half: the double of what is near the greatest duration would overflow.
            guard bound <= maximum / 2 else { return maximum }
            bound *= 2
        }
        return bound
    }
}
