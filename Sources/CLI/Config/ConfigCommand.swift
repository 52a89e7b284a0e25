import ArgumentParser

struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Writes, shows and describes the configuration.",
        discussion: """
            Examples:
              upstream-worker config init worker.yaml
              upstream-worker config show --changed
              upstream-worker config env --json
              upstream-worker config schema > config.schema.json
            """,
        subcommands: [
            ConfigInit.self, ConfigShow.self, ConfigEnv.self, ConfigSchema.self, ConfigReference.self,
        ]
    )
}
