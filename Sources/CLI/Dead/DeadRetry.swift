import ArgumentParser
import MessageStore
import Worker

/// `dead retry`.
struct DeadRetry: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry",
        abstract: "Queues dead letters for their handlers again, with a fresh count of attempts.",
        discussion: """
            Examples:
              upstream-worker dead retry --handler billing --group "webhook status 503"
              upstream-worker dead retry --all
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeadFilter
    @Flag(help: "All dead letters; needed where no filter is given.")
    var all = false
    @OptionGroup var reason: ReasonOption

    func run(in context: CommandContext) async throws {
        try await filter.work(options, context, all: all, .retry, verb: "retried", by: reason.author)
    }
}
