import ArgumentParser
import MessageStore
import Postgres
import Querying
import Resources
import UpstreamKit
import Vocabulary

struct ConflictsCommand: DescribedCommand {
    static let manual = """
        conflicts: Shows copies of known messages with other content; releases them to the handlers.
          upstream-worker conflicts list --category com.example.orders --since 1d
          upstream-worker conflicts show 7d1c0a52-0000-4000-8000-000000000001
          upstream-worker conflicts release 7d1c0a52-0000-4000-8000-000000000001
        """
    static let subcommands: Subcommands = [ListCommand<ConflictRow>.self, ConflictsShow.self, ConflictsRelease.self]
}

extension ConflictRow: ListedRow {
    typealias Options = FilterOptions
    typealias Reveal = RevealOptions

    static let most = 1_000
    static let none = "no conflicts match"
    static let manual = """
        list: Shows conflicts, one row for each distinct content, the latest first.
          upstream-worker conflicts list --since 1d
          upstream-worker conflicts list --where 'data.total>100' --json
          upstream-worker conflicts list --columns message_key,fingerprint --csv
        """

    static func page(_ asked: ListRequest<Self>, _ connection: PostgresConnection) async throws -> [Self] {
        try await ConflictQuery(filter: asked.filter, after: asked.cursor, limit: asked.limit).rows(connection)
            .map { $0.shown(to: asked.sight) }
    }
}

struct ConflictsShow: ProgramCommand {
    static let manual = """
        show: Shows the contents that came under one message's key; exit code 1 if there is no conflict.
          upstream-worker conflicts show 7d1c0a52-0000-4000-8000-000000000001
          upstream-worker conflicts show 7d1c0a52-0000-4000-8000-000000000001 --json
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "The message_key that they share.") var message: String
    @OptionGroup var format: TextFormatOptions
    @OptionGroup var tokens: RevealOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        let key = try MessageKey(message, for: "conflicts show")
        let console = context.console
        let (detail, conflicts) = try await options.withReader(context, timeout: reading.timeout.microseconds) {
            connection in
            let rows = try await ConflictQuery(filter: .init(messageKey: key), limit: 1_000).rows(connection)
            return (try await MessageLookup(connection).detail(key, conflictBytes: 0), rows)
        }
        guard !conflicts.isEmpty else { throw CommandFailure(.negative, "this message has no conflict") }
        let rows = conflicts.map { $0.shown(to: tokens.sight) }
        if format.json { return try console.show(json: rows) }
        if let stored = detail?.stored?.shown(to: tokens.sight) {
            show("stored", stored, [("fingerprint", stored.cell(.fingerprint))], console)
        } else {
            MessageText.show("stored", "its body is past retention.messages", console)
        }
        for row in rows {
            console.data("")
            let release = row.releasedAt.map { "\($0.shown) by \(row.releasedBy ?? "?")" } ?? "no"
            let more = [
                ("fingerprint", row.fingerprint.description), ("times_seen", String(row.timesSeen)),
                ("last_seen_at", row.lastSeenAt.shown), ("released", release),
                ("release_key", row.releaseKey.description),
            ]
            show("conflict", row.copy, more, console)
        }
    }

    private func show(_ title: String, _ stored: StoredMessage, _ more: [(String, String)], _ console: Terminal) {
        var facts = FactList([(title, stored.message.messageKey.description)], nameWidth: MessageText.nameWidth)
        MessageText.add(stored, to: &facts)
        for (name, value) in more { facts.add(name, value) }
        console.facts(facts)
        MessageText.showBody(stored, console)
    }
}

struct ConflictsRelease: ProgramCommand {
    static let manual = """
        release: Releases a conflict's content to the handlers of its category; exit code 1 if none is subscribed.
          upstream-worker conflicts release 7d1c0a52-0000-4000-8000-000000000001
          upstream-worker conflicts release 7d1c0a52-0000-4000-8000-000000000001 \\
            --fingerprint 0c5e51ab-0000-4000-8000-000000000002

        Handlers receive the conflict's content with a message_key of its own (its release_key), so that they do not
        take it for a duplicate of the stored message. The conflict stays in its table, which records when and by
        which role it was released; a second release changes nothing. `messages` is not changed.
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "The message_key that the conflict shares with the stored message.") var message: String
    @Option(help: "Which content, where there are several; `conflicts show` prints it.") var fingerprint: String?
    @OptionGroup var reason: ReasonOption
    @Flag(help: "One JSON array with the outcome.") var json = false

    func run(in context: CommandContext) async throws {
        let key = try MessageKey(message, for: "conflicts release")
        let print = fingerprint.flatMap { Digest128(uuid: $0.utf8) }
        guard print != nil || fingerprint == nil else {
            throw CommandFailure(.usage, "--fingerprint takes 8-4-4-4-12 hex digits, as `conflicts show` prints them")
        }
        let (chosen, outcome) = try await options.withConnection(context) { connection in
            let query = ConflictQuery(filter: .init(messageKey: key), fingerprint: print, limit: 1_000)
            let found = try await query.rows(connection)
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
        let key = conflict.releaseKey.description
        var result = (outcome: "released", handlers: [String]())
        switch outcome {
        case .released(let handlers):
            result.handlers = handlers
            console.message("released to \(handlers.joined(separator: ", ")) as \(key)")
        case .releasedBefore(let time):
            result.outcome = "released_before"
            console.message("nothing changed: it was released at \(time.shown)")
        case .noHandler: throw CommandFailure(.negative, "nothing changed: no handler wants its category and data")
        case .unknown: throw CommandFailure(.negative, "there is no such conflict")
        }
        guard json else { return }
        let row: JSONMembers = [
            "message_key": conflict.copy.message.messageKey.description,
            "fingerprint": conflict.fingerprint.description, "release_key": key, "outcome": result.outcome,
            "handlers": result.handlers,
        ]
        try console.json([row])
    }
}
