import Logging
import Telemetry

/// Limits reports of a lasting condition to one a minute.
struct Reminder {
    private var next: ContinuousClock.Instant?

    /// Whether to report now; true counts as reported.
    mutating func isDue(_ now: ContinuousClock.Instant = .now) -> Bool {
        if let next, now < next { return false }
        next = now + OutageLog.interval
        return true
    }

    /// Records the condition's end: the next one is reported at once.
    mutating func end() { next = nil }
}

/// Logs once a minute that the database is away, for as long as it is: an outage's first error is soon out of sight.
struct OutageLog {
    /// How often it is logged.
    static let interval = Duration.seconds(60)

    private var since: ContinuousClock.Instant?
    private var next: ContinuousClock.Instant?
    private let logger: Logger

    init(_ logger: Logger) { self.logger = logger }

    /// Logs the current state if due.
    ///
    /// - Parameters:
    ///   - reason: Why nothing can be committed, or the database can't be used; nil if it can.
    ///   - waiting: Messages received and not committed.
    ///   - now: The current time.
    mutating func check(_ reason: String?, waiting: Int, now: ContinuousClock.Instant = .now) {
        guard let reason else {
            (since, next) = (nil, nil)
            return
        }
        guard let since, let next else {
            (since, next) = (now, now + Self.interval)
            return
        }
        guard now >= next else { return }
        self.next = now + Self.interval
        logger.event(
            .error,
            .databaseUnavailable,
            "the database is still unavailable; received messages wait, unacked, and reading pauses",
            [.durationSeconds: .seconds(now - since), .count: .int(waiting), .error: .string(reason)]
        )
    }
}
