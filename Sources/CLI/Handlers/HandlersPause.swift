import ArgumentParser
import MessageStore
import Postgres

struct HandlersPause: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Stops a handler from starting new attempts, in every worker; its messages wait.",
        discussion: """
            Examples:
              upstream-worker handlers pause billing
              upstream-worker handlers pause billing --for 30m --reason "moving it"
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "The handler's name.")
    var handler: String
    @Option(name: .customLong("for"), help: "How long, for example 30m; without it, until it is resumed.")
    var length: DurationArgument?
    @Option(help: "The reason, which `handlers list` and the audit trail show.")
    var reason: String?

    func run(in context: CommandContext) async throws {
        let (handler, length, author) = (handler, length?.duration, AuditAuthor.command(reason))
        let pause = try await options.withConnection(context) {
            try await $0.inTransaction { connection throws(PostgresError) in
                try HandlerStates.pause(connection, handler, for: length, by: author)
            }
        }
        guard let pause else { throw CommandFailure.unknownHandler(handler) }
        let end = pause.until.map { " until \(ShownTime.short($0))" } ?? ""
        context.console.message("paused \(handler)\(end)")
    }
}
