import ArgumentParser
import MessageStore
import Vocabulary

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

    private struct Row: Encodable {
        var version: String
        var name: String
        var appliedAt: String?
    }

    func run(in context: CommandContext) async throws {
        let (migrations, state) = try await options.withConnection(context) { connection in
            (try await Migrator().status(connection), try await Migrator().state(connection))
        }
        let rows = migrations.map {
            Row(version: $0.version, name: $0.name, appliedAt: $0.appliedAt.map(ShownTime.full))
        }
        if json {
            try context.console.json(rows)
        } else {
            let cells = rows.map {
                [$0.version, $0.name.isEmpty ? "(unknown)" : $0.name, $0.appliedAt.map(ShownTime.short) ?? "pending"]
            }
            context.console.table(TextTable(["VERSION", "NAME", .init("APPLIED").ofStates], cells))
        }
        if let problem = state.problem { throw CommandFailure(.negative, problem) }
    }
}
