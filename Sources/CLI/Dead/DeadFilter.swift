import ArgumentParser
import MessageStore
import UpstreamKit

/// Which dead letters: the options that the commands share.
struct DeadFilter: ParsableArguments {
    @Option(help: "Only dead letters of this handler.")
    var handler: String?
    @Option(help: "Only this error group, as `dead groups` shows it.")
    var group: String?
    @Option(help: "Only messages of this category.")
    var category: String?
    @Option(help: "Only one message, by its message_key.")
    var message: String?
    @Option(help: "Only dead letters that died within this time, for example 1h.")
    var since: DurationArgument?
    @Option(help: "Only dead letters that died longer ago than this, for example 1d.")
    var before: DurationArgument?

    /// The store's form.
    func make() throws -> DeadLetterFilter {
        var filter = DeadLetterFilter()
        filter.handler = handler
        filter.group = group
        filter.category = category
        filter.age = since?.duration
        filter.minimumAge = before?.duration
        filter.messageKey = try message.map { try MessageKey($0, for: "--message") }
        return filter
    }

    /// Whether it narrows at all.
    var isEmpty: Bool {
        handler == nil && group == nil && category == nil && message == nil && since == nil && before == nil
    }
}

/// A dead letter as programs read it.
struct DeadRow: Encodable {
    var handler: String
    var messageKey: String
    var category: String?
    var receivedAt: String
    var diedAt: String
    var attempts: Int
    var errorGroup: String
    var error: String

    init(_ letter: DeadLetter) {
        handler = letter.handler
        messageKey = letter.messageKey.description
        category = letter.category
        receivedAt = ShownTime.full(letter.receivedAt)
        diedAt = ShownTime.full(letter.diedAt)
        attempts = letter.attempts
        errorGroup = letter.group
        error = letter.error
    }
}
