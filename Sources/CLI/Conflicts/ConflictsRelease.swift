import ArgumentParser
import MessageStore
import Postgres
import Querying
import UpstreamKit
import Vocabulary

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
