import ArgumentParser
import MessageStore

struct MigrateDown: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "down",
        abstract: "Rolls back the latest migration and deletes the data in its tables.",
        discussion: """
            Examples:
              upstream-worker migrate down         # asks first
              upstream-worker migrate down --yes   # for scripts
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var reason: ReasonOption
    @Flag(help: "Roll back every migration.")
    var all = false
    @Flag(help: "Do not ask for confirmation.")
    var yes = false

    func run(in context: CommandContext) async throws {
        let what = all ? "every migration, with all messages" : "the latest migration, with the data in its tables"
        try context.console.confirm("Roll back \(what)?", yes: yes, because: "migrate down deletes data")
        let done = try await options.withConnection(context, statementTimeout: Migrator.statementTimeout) {
            try await Migrator(by: reason.author).down($0, all: all)
        }
        for version in done { context.console.message("rolled back \(version)") }
        if done.isEmpty { context.console.message("no migration is applied") }
    }
}
