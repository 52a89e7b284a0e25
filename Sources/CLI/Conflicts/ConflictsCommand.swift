import ArgumentParser
import MessageStore
import Postgres
import Querying
import Resources
import UpstreamKit
import Vocabulary

struct ConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "Shows copies of known messages with other content; releases them to the handlers.",
        discussion: """
            Examples:
              upstream-worker conflicts list --category com.example.orders --since 1d
              upstream-worker conflicts show 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker conflicts release 7d1c0a52-0000-4000-8000-000000000001
            """,
        subcommands: [ConflictsList.self, ConflictsShow.self, ConflictsRelease.self]
    )
}

struct ConflictsList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows conflicts, one row for each distinct content, the latest first.",
        discussion: """
            Examples:
              upstream-worker conflicts list --since 1d
              upstream-worker conflicts list --where 'data.total>100' --json
              upstream-worker conflicts list --columns message_key,fingerprint --csv
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Option(help: "The most rows to show, up to 1000.")
    var limit = 50
    @Option(help: ArgumentHelp("Continue after this place, which the previous page has printed.", valueName: "cursor"))
    var after: String?
    @OptionGroup var format: ListOptions
    @OptionGroup var tokens: RevealOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        guard (1...1_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 1 to 1000") }
        let cursor = try after.map { text in
            guard let cursor = ConflictCursor(text) else {
                throw CommandFailure(.usage, "--after takes what the previous page has printed")
            }
            return cursor
        }
        _ = (try format.chosen(context.console), try format.chosen(Self.list.columns))
        let asked = try filter.asked(context.console)
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            let chosen = try await asked.judged(connection)
            return try await ConflictQuery(filter: chosen, after: cursor, limit: limit).rows(connection)
        }
        try context.console.show(rows.map { $0.shown(to: tokens.sight) }, format, Self.list)
        if rows.count == limit, let last = rows.last { context.console.message("more: --after \(last.cursor)") }
    }

    private static var list: RowList<ConflictRow> { RowList(none: "no conflicts match") }
}

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

struct ConflictsRelease: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "release",
        abstract: "Releases a conflict's content to the handlers of its category; exit code 1 if none is subscribed.",
        discussion: """
            Examples:
              upstream-worker conflicts release 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker conflicts release 7d1c0a52-0000-4000-8000-000000000001 \\
                --fingerprint 0c5e51ab-0000-4000-8000-000000000002

            Handlers receive the conflict's content with a message_key of its own (its release_key), so that they do not
            take it for a duplicate of the stored message. The conflict stays in its table, which records when and by
            which role it was released; a second release changes nothing. `messages` is not changed.
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "The message_key that the conflict shares with the stored message.")
    var message: String
    @Option(help: "Which content, where there are several; `conflicts show` prints it.")
    var fingerprint: String?
    @OptionGroup var reason: ReasonOption
    @Flag(help: "One JSON array with the outcome.")
    var json = false

    private struct Row: Encodable {
        var messageKey: String
        var fingerprint: String
        var releaseKey: String
        var outcome: String
        var handlers: [String]
    }

    func run(in context: CommandContext) async throws {
        let key = try MessageKey(message, for: "conflicts release")
        let print = try fingerprint.map { text in
            guard let print = Digest128(uuid: text.utf8) else {
                throw CommandFailure(
                    .usage,
                    "--fingerprint takes 8-4-4-4-12 hex digits, as `conflicts show` prints them"
                )
            }
            return print
        }
        let (chosen, outcome) = try await options.withConnection(context) { connection in
            var filter = MessageFilter()
            filter.messageKey = key
            let found = try await ConflictQuery(filter: filter, fingerprint: print, limit: 1_000).rows(connection)
            guard let chosen = found.first else {
                throw CommandFailure(.negative, "there is no such conflict: `conflicts list` shows them")
            }
            guard found.count == 1 else {
                let list = found.map { "  --fingerprint \($0.fingerprint)" }.joined(separator: "\n")
                throw CommandFailure(.usage, "\(found.count) contents have this key; choose one:\n\(list)")
            }
            let author = reason.author
            let outcome = try await connection.inTransaction { connection throws(PostgresError) in
                try ConflictRelease.release(connection, key, fingerprint: chosen.fingerprint, by: author)
            }
            return (chosen, outcome)
        }
        try report(chosen, outcome, context.console)
    }

    private func report(_ conflict: ConflictRow, _ outcome: ConflictRelease.Outcome, _ console: Terminal) throws {
        var row = Row(
            messageKey: conflict.copy.message.messageKey.description,
            fingerprint: conflict.fingerprint.description,
            releaseKey: conflict.releaseKey.description,
            outcome: "released",
            handlers: []
        )
        switch outcome {
        case .released(let handlers):
            row.handlers = handlers
            console.message("released to \(handlers.joined(separator: ", ")) as \(row.releaseKey)")
        case .releasedBefore(let time):
            row.outcome = "released_before"
            console.message("nothing changed: it was released at \(ShownTime.short(time))")
        case .noHandler: throw CommandFailure(.negative, "nothing changed: no handler is subscribed to its category")
        case .unknown: throw CommandFailure(.negative, "there is no such conflict")
        }
        if json { try console.json([row]) }
    }
}
