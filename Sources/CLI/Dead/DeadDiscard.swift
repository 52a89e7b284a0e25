import ArgumentParser
import MessageStore

struct DeadDiscard: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "discard",
        abstract: "Deletes dead letters; the messages themselves stay.",
        discussion: """
            Examples:
              upstream-worker dead discard --handler legacy
              upstream-worker dead discard --handler legacy --until 30d --yes
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeadFilter
    @Flag(help: "All dead letters; needed where no filter is given.")
    var all = false
    @OptionGroup var reason: ReasonOption
    @Flag(help: "Do not ask for confirmation.")
    var yes = false

    func run(in context: CommandContext) async throws {
        try context.console.confirm("Delete these dead letters?", yes: yes, because: "dead discard deletes")
        try await filter.work(options, context, all: all, .discard, verb: "discarded", by: reason.author)
    }
}
