import ArgumentParser
import Replaying

struct ReplayPause: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Stops sending until it is resumed; deliveries that handlers already have are not affected.",
        discussion: """
            Examples:
              upstream-worker replay pause friday
              upstream-worker replay pause friday --reason "too much load"
            """
    )

    @OptionGroup var control: ReplayControlOptions

    func run(in context: CommandContext) async throws {
        try await control.apply(.pause, in: context)
    }
}
