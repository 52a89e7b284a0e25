import ArgumentParser

struct QuarantineCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quarantine",
        abstract: "Shows and exports stanzas that could not be stored as messages.",
        discussion: """
            Examples:
              upstream-worker quarantine list --reason category_unusable --since 1d
              upstream-worker quarantine show 17
              upstream-worker quarantine show 17 --raw | xxd | less
              upstream-worker quarantine export --since 7d > odd.ndjson
            """,
        subcommands: [QuarantineList.self, QuarantineShow.self, QuarantineExport.self]
    )
}
