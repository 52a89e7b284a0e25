import ArgumentParser

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
