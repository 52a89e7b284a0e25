import ArgumentParser
import Replaying

struct ReplayResume: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Resumes a paused or failed replay.",
        discussion: """
            Examples:
              upstream-worker replay resume friday
              upstream-worker replay resume friday --rate 50/s
            """
    )

    @OptionGroup var control: ReplayControlOptions
    @OptionGroup(title: "How fast") var pace: ReplayPaceOptions

    func run(in context: CommandContext) async throws {
        try await control.apply(.resume, in: context, pace)
    }
}
