import ArgumentParser
import Vocabulary

struct HandlersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "handlers",
        abstract: "Shows handlers and their backlog; pauses and resumes them in every worker.",
        discussion: """
            Examples:
              upstream-worker handlers list
              upstream-worker handlers pause billing --for 30m --reason "moving it"
              upstream-worker handlers resume billing
              upstream-worker handlers remove legacy   # also deletes its deliveries
            """,
        subcommands: [HandlersList.self, HandlersPause.self, HandlersResume.self, HandlersRemove.self]
    )
}

extension CommandFailure {
    /// The error for an unregistered handler, with a suggestion from the known names.
    static func unknownHandler(_ name: String, among known: [String] = []) -> CommandFailure {
        let meant = Suggestion.nearest(to: name, among: known).map { "did you mean '\($0)'? " } ?? ""
        return CommandFailure(
            .negative,
            "no handler '\(name)' is registered: \(meant)`handlers list` shows their names"
        )
    }
}
