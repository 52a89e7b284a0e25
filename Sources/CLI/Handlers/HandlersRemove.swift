import ArgumentParser
import MessageStore
import Vocabulary

struct HandlersRemove: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Removes a handler that no worker runs any more, with its deliveries and dead letters.",
        discussion: """
            Examples:
              upstream-worker handlers remove legacy
              upstream-worker handlers remove legacy --yes   # without asking

            First remove it from the configuration of every worker and restart them. Its subscriptions, waiting \
            deliveries and dead letters are deleted; the messages stay, and a replay can send them to another handler. \
            If it is interrupted, run it again.
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "The handler's name.")
    var handler: String
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var reason: ReasonOption
    @Flag(help: "One JSON array with the handler and how many rows were deleted.")
    var json = false

    private struct Report: Encodable {
        var handler: String
        var deleted: Int
    }

    func run(in context: CommandContext) async throws {
        let deleted = try await options.withConnection(context) { connection in
            let states = HandlerStates(connection)
            guard let state = try await states.list().first(where: { $0.name == handler }) else {
                throw CommandFailure.unknownHandler(handler)
            }
            guard !state.isClaimed else { throw Self.claimed(handler, state.seenAt) }
            try confirm(state, context.console)
            do {
                try await states.unsubscribe(handler, by: reason.author)
            } catch HandlerRemovalError.claimed {
                throw Self.claimed(handler, state.seenAt)
            } catch HandlerRemovalError.unknown {
                throw CommandFailure.unknownHandler(handler)
            }
            return try await sweep(states, expecting: state.depth + state.deadLetters, context.console)
        }
        if json {
            try context.console.json([Report(handler: handler, deleted: deleted)])
        } else {
            context.console.message("removed \(handler) with \(deleted) deliveries and dead letters")
        }
    }

    private func sweep(_ states: HandlerStates, expecting total: Int, _ console: Terminal) async throws -> Int {
        let bar = ProgressBar("removing \(handler)", on: console)
        var deleted = 0
        while case let count = try await states.sweep(handler), count > 0 {
            deleted += count
            bar.show(Int64(deleted), of: Int64(max(total, deleted)))
        }
        bar.clear()
        try await states.removed(handler, with: deleted, by: reason.author)
        return deleted
    }

    private func confirm(_ state: HandlerState, _ console: Terminal) throws {
        let limit = 100_000
        func amount(_ count: Int) -> String { Amount.count(Int64(count)) + (count == limit ? " or more" : "") }
        let what = "\(amount(state.depth)) waiting deliveries and \(amount(state.deadLetters)) dead letters"
        try console.confirm(
            "Remove \(handler) and delete its \(what)?",
            yes: yes,
            because: "handlers remove deletes \(what)"
        )
    }

    private static func claimed(_ handler: String, _ seenAt: Timestamp) -> CommandFailure {
        CommandFailure(
            .negative,
            "a worker runs \(handler) (last seen \(ShownTime.short(seenAt))): remove it from the configuration, restart "
                + "the workers and try again after two minutes"
        )
    }
}
