import ArgumentParser
import MessageStore
import Postgres

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
        let (handler, author) = (handler, reason.author)
        let isKnown = try await options.withConnection(context) {
            try await $0.inTransaction { connection throws(PostgresError) in
                try HandlerStates.resume(connection, handler, by: author)
            }
        }
        guard isKnown else { throw CommandFailure.unknownHandler(handler) }
        context.console.message("resumed \(handler)")
    }
}
