/// When a program that ends without having answered anything may be started again.
struct RestartBackoff {
    /// The wait after the second failure in a row; each further one doubles it.
    static let initial = Duration.milliseconds(500)

    /// The longest wait.
    static let maximum = Duration.seconds(30)

    private var failures = 0
    private var notBefore: ContinuousClock.Instant?

    /// It answered: the next start is free again.
    mutating func succeeded() {
        self = RestartBackoff()
    }

    /// It could not be started, or ended without an answer.
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
