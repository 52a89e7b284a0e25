import ArgumentParser
import MessageStore

struct MigrateUp: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "up",
        abstract: "Applies every pending migration.",
        discussion: """
            Examples:
              upstream-worker migrate up
              upstream-worker migrate up --config worker.yaml
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var reason: ReasonOption

    func run(in context: CommandContext) async throws {
        let done = try await options.withConnection(context, statementTimeout: Migrator.statementTimeout) {
            try await Migrator(by: reason.author).up($0)
        }
        for version in done { context.console.message("applied \(version)") }
        if done.isEmpty { context.console.message("the schema is current") }
    }
}
