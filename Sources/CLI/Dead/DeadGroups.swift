import ArgumentParser
import MessageStore
import Resources

struct DeadGroups: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "groups",
        abstract: "Counts dead letters by their error.",
        discussion: """
            Examples:
              upstream-worker dead groups
              upstream-worker dead groups --handler billing --since 1d --json
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeadFilter
    @OptionGroup var output: ListOptions

    func run(in context: CommandContext) async throws {
        _ = (try output.chosen(context.console), try output.chosen(Self.list.columns))
        let asked = try filter.asked()
        let groups = try await options.withConnection(context) { connection in
            let letters = DeadLetters(connection)
            return try await letters.groups(asked.judged(connection))
        }
        try context.console.show(groups, output, Self.list)
    }

    private static var list: RowList<DeadLetterGroup> { RowList(none: "no dead letters match") }
}
