import ArgumentParser
import MessageStore
import Resources
import Vocabulary

struct DeadList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows dead letters, the latest first.",
        discussion: """
            Examples:
              upstream-worker dead list --handler billing --since 1h
              upstream-worker dead list --group "webhook status 503" --json
              upstream-worker dead list --columns died_at,message_key,error --reverse
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeadFilter
    @Option(help: "The most rows to show.")
    var limit = 50
    @OptionGroup var output: ListOptions

    func run(in context: CommandContext) async throws {
        guard limit > 0 else { throw CommandFailure(.usage, "--limit must be above zero") }
        _ = (try output.chosen(context.console), try output.chosen(Self.list.columns))
        let asked = try filter.asked()
        let letters = try await options.withConnection(context) { connection in
            try await DeadLetters(connection).list(asked.judged(connection), limit: limit)
        }
        try context.console.show(letters, output, Self.list)
        if letters.count == limit { context.console.message("more may match: --limit is \(limit)") }
    }

    private static var list: RowList<DeadLetter> { RowList(none: "no dead letters match") }
}
