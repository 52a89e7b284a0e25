import Logging
import Telemetry

/// Lets something that lasts be done now and then: reports of it at most once a minute, unless another interval is set.
struct Reminder {
    private let interval: Duration
    private var next: ContinuousClock.Instant?

    init(every interval: Duration = .seconds(60)) { self.interval = interval }

    /// Whether it is due; true counts as done.
    mutating func isDue(_ now: ContinuousClock.Instant = .now) -> Bool {
        if let next, now < next { return false }
        next = now + interval
        return true
    }

    /// Records the end: the next one is due at once.
    mutating func end() { next = nil }
}

/// Logs once a minute that the database is away, for as long as it is: an outage's first error is soon out of sight.
struct OutageLog {
    private var since: ContinuousClock.Instant?
    private var reminder = Reminder()
    private let logger: Logger

    init(_ logger: Logger) { self.logger = logger }

    /// Logs, if due, why nothing can be committed (nil if it can), and how many messages wait for that.
    mutating func check(_ reason: String?, waiting: Int, now: ContinuousClock.Instant = .now) {
        guard let reason else {
            since = nil
            return reminder.end()
        }
        // Whoever failed first has reported the first time.
        guard reminder.isDue(now), let since else {
            since = since ?? now
            return
        }
        logger.event(
            .error,
            .databaseUnavailable,
            "the database is still unavailable; received messages wait, unacked, and reading pauses",
            [.durationSeconds: .seconds(now - since), .count: .int(waiting), .error: .string(reason)]
        )
    }
}
