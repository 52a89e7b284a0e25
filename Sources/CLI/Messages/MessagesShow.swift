import ArgumentParser
import Querying
import Resources
import Vocabulary

struct MessagesShow: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows one message with its deliveries, dead letters and conflicts; exit code 1 if there is none.",
        discussion: """
            Examples:
              upstream-worker messages show 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker messages show 7d1c0a52          # the beginning of a key
              upstream-worker messages show order-4711 --json
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "Its message_key or the beginning of that (8 digits or more), or its message_id.")
    var message: String
    @OptionGroup var format: TextFormatOptions
    @OptionGroup var tokens: RevealOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        let found = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            try await MessageLookup(connection).find(message)
        }
        guard !found.isEmpty else {
            throw CommandFailure(
                .negative,
                "no message has this key or id, or a key that begins so: `messages list` finds messages by other values"
            )
        }
        let console = context.console
        let sight = tokens.sight
        if format.json { return try console.show(Array(found)) { $0.content(to: sight).json(isForTerminal: $1) } }
        for (index, detail) in found.enumerated() {
            if index > 0 { console.data("") }
            MessageText(detail.content(to: sight), console).show()
        }
        if found.isCut { console.message("there may be more: `messages list` has them all") }
        if found.count > 1 {
            console.message(
                "\(found.count) messages have this id, from several senders or devices, or a key that begins so"
            )
        }
    }
}
