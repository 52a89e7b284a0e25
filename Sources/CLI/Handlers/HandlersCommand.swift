import ArgumentParser
import Worker

/// `handlers`: their subscriptions and backlog, and pausing.
struct HandlersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "handlers",
        abstract: "Shows handlers and their backlog; pauses and resumes them in every worker.",
        discussion: """
            Examples:
              upstream-worker handlers list
              upstream-worker handlers pause billing --for 30m --reason "billing is being moved"
              upstream-worker handlers resume billing
              upstream-worker handlers remove legacy       no worker runs it any more; its deliveries are deleted
            """,
        subcommands: [HandlersList.self, HandlersPause.self, HandlersResume.self, HandlersRemove.self]
    )
}

extension CommandFailure {
    /// Nothing is known of this handler.
    static func unknownHandler(_ name: String) -> CommandFailure {
        CommandFailure(.negative, "no handler '\(name)' is registered: `handlers list` shows their names")
    }
}
