import ArgumentParser
import UpstreamConfiguration

struct ConfigReference: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "reference",
        abstract: "Prints docs/configuration.md.",
        discussion: """
            Examples:
              upstream-worker config reference > docs/configuration.md
            """,
        shouldDisplay: false
    )

    func run(in context: CommandContext) async throws {
        context.console.data(ConfigurationReference.page)
    }
}
