import ArgumentParser
import MessageStore
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `conflicts release`.
struct ConflictsRelease: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "release",
        abstract: "Hands a conflict's content to the handlers of its category; exit code 1 where nobody would get it.",
        discussion: """
            Examples:
              upstream-worker conflicts release 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker conflicts release 7d1c0a52-0000-4000-8000-000000000001 --fingerprint 0c5e…

            Handlers get the conflict's content with a message_key of its own (its release_key), so that those who have
            handled the stored message don't take it for a repetition. The conflict stays in its table, which says when
            and by which role it was released; a second release changes nothing. `messages` is not changed.
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "The message_key that it shares with the stored message.")
    var message: String
    @Option(help: "Which content, where there are several; as `conflicts show` names it.")
    var fingerprint: String?
    @Flag(help: "One JSON array with the outcome.")
    var json = false

    private struct Row: Encodable {
        var messageKey: String
        var fingerprint: String
        var releaseKey: String
        var outcome: String
        var handlers: [String]
    }

    func run() async throws {
        let key = try ConflictsCommand.key(message)
        let print = try fingerprint.map { text in
            guard let print = Digest128(uuid: text.utf8) else {
                throw CommandFailure(.usage, "a fingerprint is 8-4-4-4-12 hex digits")
            }
            return print
        }
        let (chosen, outcome) = try await options.withConnection { connection in
            var filter = MessageFilter()
            filter.messageKey = key
            let found = try await ConflictQuery(filter: filter, fingerprint: print, limit: 1_000).rows(connection)
            guard let chosen = found.first else { throw CommandFailure(.negative, "there is no such conflict") }
            guard found.count == 1 else {
                let list = found.map { "  --fingerprint \($0.fingerprint)" }.joined(separator: "\n")
                throw CommandFailure(.usage, "\(found.count) contents came under this key; say which:\n\(list)")
            }
            return (chosen, try await ConflictRelease.release(key, fingerprint: chosen.fingerprint, connection))
        }
        try report(chosen, outcome)
    }

    private func report(_ conflict: ConflictRow, _ outcome: ConflictRelease.Outcome) throws {
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
            Console.message("released to \(handlers.joined(separator: ", ")) as \(row.releaseKey)")
        case .releasedBefore(let time):
            row.outcome = "released_before"
            Console.message("nothing changed: it was released at \(ShownTime.full(time))")
        case .noHandler: throw CommandFailure(.negative, "nothing changed: no handler is subscribed to its category")
        case .unknown: throw CommandFailure(.negative, "there is no such conflict")
        }
        if json { try HandlersCommand.printJSON([row]) }
    }
}
