import ArgumentParser
import MessageStore
import Worker

struct HandlersResume: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Resumes a paused handler.",
        discussion: """
            Examples:
              upstream-worker handlers resume billing
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "The handler's name.")
    var handler: String
    @OptionGroup var reason: ReasonOption

    func run(in context: CommandContext) async throws {
        let isKnown = try await options.withConnection(context) {
            try await HandlerStates($0).resume(handler, by: reason.author)
        }
        guard isKnown else { throw CommandFailure.unknownHandler(handler) }
        context.console.message("resumed \(handler)")
    }
}
