import ArgumentParser
import MessageStore
import Postgres
import Worker

extension HandlersCommand {
    /// `handlers remove`.
    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Takes a handler that no worker runs any more out of the database, with all that waits for it.",
            discussion: """
                Examples:
                  upstream-worker handlers remove legacy
                  upstream-worker handlers remove legacy --yes      without asking

                First take it out of the configuration of every worker and restart them. Its subscriptions, waiting \
                deliveries and dead letters are deleted; the messages stay, and a replay can bring them to another \
                handler. Safe to repeat where it was interrupted.
                """
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The handler's name.")
        var handler: String
        @Flag(help: "Do it without asking.")
        var yes = false
        @Flag(help: "One JSON array with the handler and how many rows were deleted.")
        var json = false

        private struct Report: Encodable {
            var handler: String
            var deleted: Int
        }

        func run() async throws {
            try await options.withConnection { connection in
                let states = HandlerStates(connection)
                guard let state = try await states.list().first(where: { $0.name == handler }) else {
                    throw CommandFailure(.negative, "no handler is registered under this name")
                }
                guard !state.isClaimed else { throw Self.claimed(handler, state.seenAt) }
                try confirm(state)
                do {
                    try await states.unsubscribe(handler)
                } catch HandlerRemovalError.claimed {
                    throw Self.claimed(handler, state.seenAt)
                } catch HandlerRemovalError.unknown {
                    throw CommandFailure(.negative, "no handler is registered under this name")
                }
                let total = Int64(state.depth + state.deadLetters)
                let bar = ProgressBar("removing \(handler)")
                var deleted = 0
                while case let count = try await states.sweep(handler), count > 0 {
                    deleted += count
                    bar.show(Int64(deleted), of: max(total, Int64(deleted)))
                }
                bar.clear()
                if json {
                    try HandlersCommand.printJSON([Report(handler: handler, deleted: deleted)])
                } else {
                    Console.message("removed \(handler) with \(deleted) deliveries and dead letters")
                }
            }
        }

        private func confirm(_ state: HandlerState) throws {
            guard !yes else { return }
            let limit = 100_000
            func amount(_ count: Int) -> String { Amount.count(Int64(count)) + (count == limit ? " or more" : "") }
            let what = "\(amount(state.depth)) waiting deliveries and \(amount(state.deadLetters)) dead letters"
            guard let answer = Console.ask("Remove \(handler) and delete its \(what)?") else {
                throw CommandFailure(.usage, "handlers remove deletes \(what): add --yes where nobody can be asked")
            }
            guard answer else { throw CommandFailure(.negative, "nothing was changed") }
        }

        private static func claimed(_ handler: String, _ seenAt: Int64) -> CommandFailure {
            CommandFailure(
                .negative,
                "a worker runs \(handler) (last seen \(HandlersCommand.time(seenAt))): take it out of the configuration, "
                    + "restart the workers and try again after two minutes"
            )
        }
    }
}
