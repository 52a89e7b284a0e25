import Logging
import Synchronization
import Telemetry

/// Logs dead letters, one line per handler, error group and minute: a handler that rejects everything would otherwise
/// write thousands.
///
/// The first of a group is logged at once, with its message's key. Those that follow within a minute are counted and
/// reported in one line at its end; then the next minute begins. Thread-safe.
final class DeadLetterLog: Sendable {
    private struct Group: Hashable {
        var handler: String
        /// The error group; empty for groups over the limit.
        var name: String
    }

    private struct Minute {
        var end: ContinuousClock.Instant
        /// Dead letters not reported yet.
        var count = 0
        var error: String?
    }

    static let interval = Duration.seconds(60)
    /// The most groups told apart: handlers make them from their own words.
    private static let groupLimit = 200

    private let minutes = Mutex<[Group: Minute]>([:])
    private let logger: Logger

    init(_ logger: Logger) { self.logger = logger }

    /// Records a dead letter; `fields` are for the line, if one is written.
    func add(
        _ handler: String,
        _ failure: HandlerFailure?,
        _ fields: @autoclosure () -> LogFields,
        now: ContinuousClock.Instant = .now
    ) {
        let isFirst = minutes.withLock { minutes in
            var group = Group(handler: handler, name: failure?.group ?? "")
            if minutes[group] == nil, minutes.count >= Self.groupLimit { group.name = "" }
            if minutes[group] != nil {
                minutes[group]?.count += 1
                return false
            }
            let error = group.name.isEmpty ? nil : failure?.logText
            minutes[group] = Minute(end: now + Self.interval, error: error)
            return true
        }
        if isFirst { logger.event(.warning, .deadLettered, "a delivery became a dead letter", fields()) }
    }

    /// Reports what was only counted, if its minute is over; with nil everything, at the end.
    func logDue(_ now: ContinuousClock.Instant?) {
        let due = minutes.withLock { minutes -> [(Group, Minute)] in
            guard !minutes.isEmpty else { return [] }
            let over = minutes.filter { minute in now.map { minute.value.end <= $0 } ?? true }
            for (group, minute) in over {
                minutes[group] = nil
                // The next line is due a minute after this one.
                guard let now, minute.count > 0 else { continue }
                minutes[group] = Minute(end: now + Self.interval, error: minute.error)
            }
            return over.filter { $0.value.count > 0 }
        }
        for (group, minute) in due {
            var fields: LogFields = [.handler: .string(group.handler), .count: .int(minute.count)]
            fields[.error] = minute.error.map { .string($0) }
            logger.event(.warning, .deadLettered, "more deliveries became dead letters within a minute", fields)
        }
    }
}
