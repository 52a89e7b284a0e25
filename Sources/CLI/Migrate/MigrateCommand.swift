import ArgumentParser
import MessageStore
import Vocabulary

struct MigrateCommand: DescribedCommand {
    static let manual = """
        migrate: Creates the tables, rolls migrations back, or shows which are applied.
          upstream-worker migrate up
          upstream-worker migrate status --json
          upstream-worker migrate down --yes
        """
    static let subcommands: Subcommands = [MigrateUp.self, MigrateDown.self, MigrateStatus.self]
}

struct MigrateUp: ProgramCommand {
    static let manual = """
        up: Applies every pending migration.
          upstream-worker migrate up
          upstream-worker migrate up --config worker.yaml
        """

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
    static let manual = """
        down: Rolls back the latest migration and deletes the data in its tables.
          upstream-worker migrate down         # asks first
          upstream-worker migrate down --yes   # for scripts
        """

    @OptionGroup var options: CommonOptions
    @OptionGroup var reason: ReasonOption
    @Flag(help: "Roll back every migration.") var all = false
    @Flag(help: "Do not ask for confirmation.") var yes = false

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
    static let manual = """
        status: Shows which migrations are applied; exit code 1 when the schema is not current.
          upstream-worker migrate status
          upstream-worker migrate status --json
        """

    @OptionGroup var options: CommonOptions
    @Flag(help: "One JSON array instead of a table.") var json = false

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
