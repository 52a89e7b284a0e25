import ArgumentParser

struct DeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead",
        abstract: "Shows dead letters; retries or discards them.",
        discussion: """
            Examples:
              upstream-worker dead groups
              upstream-worker dead list --handler billing --since 1h
              upstream-worker dead show 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker dead retry --handler billing --group "webhook status 503"
              upstream-worker dead discard --handler legacy --yes
            """,
        subcommands: [DeadList.self, DeadShow.self, DeadGroups.self, DeadRetry.self, DeadDiscard.self]
    )
}
