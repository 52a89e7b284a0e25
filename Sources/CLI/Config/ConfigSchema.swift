import ArgumentParser
import UpstreamConfiguration

struct ConfigSchema: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Prints the configuration file's JSON Schema (draft 2020-12).",
        discussion: """
            Examples:
              upstream-worker config schema > config.schema.json

            Editors with the YAML language server complete and check a file whose first line is:
              # yaml-language-server: $schema=config.schema.json
            """
    )

    func run(in context: CommandContext) async throws {
        for line in JSONIndent.lines(ConfigurationSchema.json) { context.console.data(line) }
    }
}
