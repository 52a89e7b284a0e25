/// Exponential delays with full jitter: a random part of `initial · 2^(attempt-1)`, bounded by `maximum`.
///
/// All of it is random, to spread clients that failed together ("Exponential Backoff And Jitter", AWS, 2015).
package struct Backoff: Hashable, Sendable {
    package var initial: Duration
    package var maximum: Duration
    /// The lower bound of every delay, against a hot loop.
    package var minimum: Duration

    package init(initial: Duration, maximum: Duration, minimum: Duration = .zero) {
        self.initial = initial
        self.maximum = maximum
        self.minimum = minimum
    }

    /// The fraction `random` of the ceiling after `attempt` failures, from 1, but at least `minimum`.
    ///
    /// `random` is clamped to 0...1; NaN and infinity count as 1.
    package func delay(attempt: Int, random: Double) -> Duration {
        let part = random.isFinite ? min(max(random, 0), 1) : 1
        return max(ceiling(attempt: attempt) * part, minimum)
    }

    /// The longest delay that ``delay(attempt:random:)`` can give for this attempt.
    package func ceiling(attempt: Int) -> Duration {
        var bound = min(initial, maximum)
        guard bound > .zero, attempt > 1 else { return bound }
        for _ in 1..<attempt {
            // Compared with the half, since doubling could overflow.
            guard bound <= maximum / 2 else { return maximum }
            bound *= 2
        }
        return bound
    }
}
