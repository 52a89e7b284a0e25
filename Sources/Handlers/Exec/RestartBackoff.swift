import Vocabulary

/// When a program that can't be started, or ends without an answer, may be started again.
///
/// Once one of its processes has answered, the program works: a process that dies then is its message's fault, and must not
/// delay other messages. Starts are then only rate-limited.
struct RestartBackoff {
    /// The wait between starts of a program that works, after the second that ended without an answer in a row.
    static let pace = Duration.milliseconds(250)

    /// The waits from the second failure in a row on; whole, for there is nobody to keep apart from.
    static let waits = Backoff(initial: .milliseconds(500), maximum: .seconds(30))

    private var failures = 0
    private var deaths = 0
    private var works = false
    private var notBefore: ContinuousClock.Instant?

    /// It answered: the next start need not wait.
    mutating func succeeded() {
        self = RestartBackoff()
        works = true
    }

    /// Whether the wait is only the short rate limit.
    var isPacing: Bool { works && failures == 0 }

    /// A process died while it had a message, or gave an invalid answer.
    mutating func died(now: ContinuousClock.Instant) {
        guard works else { return failed(now: now) }
        deaths = min(deaths + 1, 2)
        if deaths > 1, notBefore ?? now <= now { notBefore = now + Self.pace }
    }

    /// It could not be started, or ended before any process had ever answered.
    ///
    /// The first failure causes no wait: one bad message must not delay the next.
    mutating func failed(now: ContinuousClock.Instant) {
        failures = min(failures + 1, 16)
        guard failures > 1 else { return }
        notBefore = now + Self.waits.ceiling(attempt: failures - 1)
    }

    /// How long to wait until the next start; nil if it need not wait.
    func wait(now: ContinuousClock.Instant) -> Duration? {
        guard let notBefore, notBefore > now else { return nil }
        return now.duration(to: notBefore)
    }
}
