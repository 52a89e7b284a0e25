import ArgumentParser

struct ConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "Shows copies of known messages with other content; releases them to the handlers.",
        discussion: """
            Examples:
              upstream-worker conflicts list --category com.example.orders --since 1d
              upstream-worker conflicts show 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker conflicts release 7d1c0a52-0000-4000-8000-000000000001
            """,
        subcommands: [ConflictsList.self, ConflictsShow.self, ConflictsRelease.self]
    )
}
