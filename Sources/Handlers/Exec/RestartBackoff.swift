/// When a program that can't be started, or ends without having answered anything, may be started again.
///
/// Once one of its processes has answered, the program works: a process that ends over a message says something about that
/// message, and must not hold back others. Starts are then only paced, so that they don't take the machine's time.
struct RestartBackoff {
    /// The wait between starts of a program that works, after the second that ended without an answer in a row.
    static let pace = Duration.milliseconds(250)

    /// The wait after the second failure in a row; each further one doubles it.
    static let initial = Duration.milliseconds(500)

    /// The longest wait.
    static let maximum = Duration.seconds(30)

    private var failures = 0
    private var deaths = 0
    private var works = false
    private var notBefore: ContinuousClock.Instant?

    /// It answered: the next start is free again.
    mutating func succeeded() {
        self = RestartBackoff()
        works = true
    }

    /// Whether the wait is short, and only keeps starts apart.
    var isPacing: Bool { works && failures == 0 }

    /// A process ended with a message in its hands, or answered out of shape.
    mutating func died(now: ContinuousClock.Instant) {
        guard works else { return failed(now: now) }
        deaths = min(deaths + 1, 2)
        if deaths > 1, notBefore ?? now <= now { notBefore = now + Self.pace }
    }

    /// It could not be started, or ended before any process had ever answered.
    ///
    /// The first failure costs nothing: one bad message must not hold back the next.
    mutating func failed(now: ContinuousClock.Instant) {
        failures = min(failures + 1, 16)
        guard failures > 1 else { return }
        notBefore = now + min(Self.maximum, Self.initial * (1 << (failures - 2)))
    }

    /// How long to wait until the next start, or nil where it is free.
    func wait(now: ContinuousClock.Instant) -> Duration? {
        guard let notBefore, notBefore > now else { return nil }
        return now.duration(to: notBefore)
    }
}
