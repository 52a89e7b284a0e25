import ArgumentParser
import Querying
import Resources
import UpstreamKit
import Vocabulary

struct ConflictsShow: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows the contents that came under one message's key; exit code 1 if there is no conflict.",
        discussion: """
            Examples:
              upstream-worker conflicts show 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker conflicts show 7d1c0a52-0000-4000-8000-000000000001 --json
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "The message_key that they share.")
    var message: String
    @OptionGroup var format: TextFormatOptions
    @OptionGroup var tokens: RevealOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        let key = try MessageKey(message, for: "conflicts show")
        let console = context.console
        let (detail, conflicts) = try await options.withReader(context, timeout: reading.timeout.microseconds) {
            connection in
            var filter = MessageFilter()
            filter.messageKey = key
            let rows = try await ConflictQuery(filter: filter, limit: 1_000).rows(connection)
            return (try await MessageLookup(connection).detail(key, conflictBytes: 0), rows)
        }
        guard !conflicts.isEmpty else { throw CommandFailure(.negative, "this message has no conflict") }
        let rows = conflicts.map { $0.shown(to: tokens.sight) }
        if format.json { return try console.show(rows) { $0.json(isForTerminal: $1) } }
        if let stored = detail?.stored?.shown(to: tokens.sight) {
            show("stored", stored, [("fingerprint", stored.cell(.fingerprint))], console)
        } else {
            MessageText.show("stored", "its body is past retention.messages", console)
        }
        for row in rows {
            console.data("")
            let release = row.releasedAt.map { "\(ShownTime.short($0)) by \(row.releasedBy ?? "?")" } ?? "no"
            let more = [
                ("fingerprint", row.fingerprint.description), ("times_seen", String(row.timesSeen)),
                ("last_seen_at", ShownTime.short(row.lastSeenAt)), ("released", release),
                ("release_key", row.releaseKey.description),
            ]
            show("conflict", row.copy, more, console)
        }
    }

    private func show(_ title: String, _ stored: StoredMessage, _ more: [(String, String)], _ console: Terminal) {
        var facts = MessageText.facts()
        facts.add(title, stored.message.messageKey.description)
        MessageText.add(stored, to: &facts)
        for (name, value) in more { facts.add(name, value) }
        console.facts(facts)
        MessageText.showBody(stored, console)
    }
}
