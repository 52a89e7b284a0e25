import Vocabulary

/// When a program that can't be started, or ends without an answer, may be started again.
///
/// Once one of its processes has answered, the program works: a process that dies then is its message's fault, and must
/// not delay other messages. Starts are then only rate-limited.
struct RestartBackoff {
    /// The wait between starts of a working program, after the second consecutive end without an answer.
    static let pace = Duration.milliseconds(250)

    /// The waits from the second consecutive failure on; without jitter, since nobody else retries at the same time.
    static let waits = Backoff(initial: .milliseconds(500), maximum: .seconds(30))

    private var failures = 0
    private var deaths = 0
    private var works = false
    private var notBefore: ContinuousClock.Instant?

    /// Records an answer: the next start need not wait.
    mutating func succeeded() {
        self = RestartBackoff()
        works = true
    }

    /// Whether the wait is only the short rate limit.
    var isPacing: Bool { works && failures == 0 }

    /// Records that a process died with a message, or gave an invalid answer.
    mutating func died(now: ContinuousClock.Instant) {
        guard works else { return failed(now: now) }
        deaths = min(deaths + 1, 2)
        if deaths > 1, notBefore ?? now <= now { notBefore = now + Self.pace }
    }

    /// Records a failed start, or an end before any process had ever answered.
    ///
    /// The first failure causes no wait: one bad message must not delay the next.
    mutating func failed(now: ContinuousClock.Instant) {
        failures = min(failures + 1, 16)
        guard failures > 1 else { return }
        notBefore = now + Self.waits.ceiling(attempt: failures - 1)
    }

    /// The wait until the next start; nil if there is none.
    func wait(now: ContinuousClock.Instant) -> Duration? {
        guard let notBefore, notBefore > now else { return nil }
        return now.duration(to: notBefore)
    }
}
