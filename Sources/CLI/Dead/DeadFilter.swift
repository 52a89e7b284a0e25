import ArgumentParser
import MessageStore
import Querying
import Telemetry
import UpstreamKit
import Vocabulary

/// The options that select dead letters.
struct DeadFilter: ParsableArguments {
    @Option(help: "Only dead letters of this handler.")
    var handler: String?
    @Option(help: "Only this error group, as `dead groups` shows it.")
    var group: String?
    @Option(help: "Only messages of this category.")
    var category: String?
    @Option(help: ArgumentHelp("Only one message, by its message_key.", valueName: "key"))
    var messageKey: String?
    @Option(help: ArgumentHelp("Died at or after, for example 1h, yesterday or 2026-01-31.", valueName: "time"))
    var since: String?
    @Option(help: ArgumentHelp("Died before, for example 1d.", valueName: "time"))
    var until: String?
    @Option(name: .customLong("message"), help: ArgumentHelp("--message-key", visibility: .hidden))
    var formerKey: String?
    @Option(name: .customLong("before"), help: ArgumentHelp("--until", visibility: .hidden))
    var formerUntil: String?

    func make() throws -> DeadLetterFilter {
        var filter = DeadLetterFilter()
        filter.handler = handler
        filter.group = group
        filter.category = category
        (filter.age, filter.since) = try since.map(Self.time) ?? (nil, nil)
        (filter.minimumAge, filter.until) = try (until ?? formerUntil).map(Self.time) ?? (nil, nil)
        if let since, let until = until ?? formerUntil {
            let now = Timestamp.now
            guard try TimeExpression.parse(since, now: now) < TimeExpression.parse(until, now: now) else {
                throw CommandFailure(.usage, "--since must be before --until")
            }
        }
        // Later dead letters are never meant, and a bound in the future would let them in.
        if let until = filter.until, until > .now { filter.until = nil }
        filter.messageKey = try (messageKey ?? formerKey).map { try MessageKey($0, for: "--message-key") }
        return filter
    }

    /// Parses an age, which the database's clock judges, or a moment.
    private static func time(_ text: String) throws -> (age: Duration?, moment: Timestamp?) {
        if let text = DurationText(text), text.unit != nil, let age = text.duration { return (age, nil) }
        return (nil, try TimeExpression.parse(text, now: .now))
    }

    var isEmpty: Bool {
        handler == nil && group == nil && category == nil && (messageKey ?? formerKey) == nil && since == nil
            && (until ?? formerUntil) == nil
    }
}
