import ArgumentParser
import Replaying

struct ReplayCancel: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Cancels a replay for good; what was sent stays sent.",
        discussion: """
            Examples:
              upstream-worker replay cancel friday
            """
    )

    @OptionGroup var control: ReplayControlOptions

    func run(in context: CommandContext) async throws {
        try await control.apply(.cancel, in: context)
    }
}
