import ArgumentParser
import MessageStore
import Vocabulary

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Creates the tables, rolls migrations back, or shows which are applied.",
        discussion: """
            Examples:
              upstream-worker migrate up
              upstream-worker migrate status --json
              upstream-worker migrate down --yes
            """,
        subcommands: [MigrateUp.self, MigrateDown.self, MigrateStatus.self]
    )
}

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

struct MigrateStatus: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows which migrations are applied; exit code 1 when the schema is not current.",
        discussion: """
            Examples:
              upstream-worker migrate status
              upstream-worker migrate status --json
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "One JSON array instead of a table.")
    var json = false

    func run(in context: CommandContext) async throws {
        let (migrations, state) = try await options.withConnection(context) { connection in
            (try await Migrator().status(connection), try await Migrator().state(connection))
        }
        if json {
            try context.console.json(
                migrations.map {
                    ["version": $0.version, "name": $0.name, "applied_at": $0.appliedAt?.rfc3339] as JSONMembers
                }
            )
        } else {
            let cells = migrations.map {
                [$0.version, $0.name.isEmpty ? "(unknown)" : $0.name, $0.appliedAt?.shown ?? "pending"]
            }
            context.console.table(TextTable(["VERSION", "NAME", .init("APPLIED").ofStates], cells))
        }
        if let problem = state.problem { throw CommandFailure(.negative, problem) }
    }
}
