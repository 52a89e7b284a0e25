import ArgumentParser
import MessageStore
import Resources
import UpstreamKit
import Vocabulary

struct DeadShow: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows one message's dead letters with the whole error; exit code 1 if it has none.",
        discussion: """
            Examples:
              upstream-worker dead show 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker dead show 7d1c0a52-0000-4000-8000-000000000001 --json
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "The message's key.")
    var message: String
    @OptionGroup var format: TextFormatOptions

    func run(in context: CommandContext) async throws {
        var filter = DeadLetterFilter()
        filter.messageKey = try MessageKey(message, for: "dead show")
        let chosen = filter
        let letters = try await options.withConnection(context) {
            try await DeadLetters($0).list(chosen, limit: 1_000)
        }
        guard !letters.isEmpty else { throw CommandFailure(.negative, "this message has no dead letter") }
        if format.json {
            return try context.console.show(letters) { $0.json(isForTerminal: $1) }
        }
        for letter in letters {
            var facts = FactList()
            for (name, text) in letter.facts { facts.add(name, text) }
            context.console.facts(facts)
            context.console.data("")
        }
    }
}
