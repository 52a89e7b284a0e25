import ArgumentParser
import MessageStore
import Postgres
import Resources
import Vocabulary

struct HandlersCommand: DescribedCommand {
    static let manual = """
        handlers: Shows handlers and their backlog; pauses and resumes them in every worker.
          upstream-worker handlers list
          upstream-worker handlers pause billing --for 30m --reason "moving it"
          upstream-worker handlers resume billing
          upstream-worker handlers remove legacy   # also deletes its deliveries
        """
    static let subcommands: Subcommands = [
        HandlersList.self, HandlersPause.self, HandlersResume.self, HandlersRemove.self,
    ]
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

struct HandlersList: ProgramCommand {
    static let manual = """
        list: Shows every registered handler; counts stop at 100000, shown as 100000+.
          upstream-worker handlers list
          upstream-worker handlers list --json | jq '.[] | select(.claimed | not)'

        failing: the circuit breaker of at least one worker is open; the handler gets \
        nothing but a probe at the time shown. With --json its state is active, and its circuit open or half_open. \
        held: the handler asked for a pause (Retry-After) that lasts until the time shown; `handlers resume` ends it. \
        With --json its state is active, and held_until the time. \
        unclaimed: no worker has run the handler for two minutes; its messages wait. Configure it, or remove it with \
        `handlers remove`. A handler receives every category that at least one of its workers asks for; where all have \
        conditions (`where` with --json), what one of them wants. A worker that \
        was stopped no longer counts; one that crashed counts until it has been silent for ten minutes. \
        With --json, counted_to is where the counts stop: there may be more.
        """

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: ListOptions

    func run(in context: CommandContext) async throws {
        let console = context.console
        let handlers = try await options.withConnection(context) { try await HandlerView.list($0) }
        try console.show(handlers, output, RowList<HandlerView>(none: "no handlers are registered"))
        guard try output.chosen(console) == .table, output.columns == nil else { return }
        let workers = handlers.flatMap { handler in handler.state.workers.map { [handler.state.name] + $0.cells } }
        guard !workers.isEmpty else { return }
        console.data("")
        console.show(TextTable(["HANDLER"] + HandlerWorker.columns, workers), way: "--json has all")
    }
}

struct HandlersPause: ProgramCommand {
    static let manual = """
        pause: Stops a handler from starting new attempts, in every worker; its messages wait.
          upstream-worker handlers pause billing
          upstream-worker handlers pause billing --for 30m --reason "moving it"
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "The handler's name.") var handler: String
    @Option(name: .customLong("for"), help: "How long, for example 30m; without it, until it is resumed.")
    var length: DurationArgument?
    @Option(help: "The reason, which `handlers list` and the audit trail show.") var reason: String?

    func run(in context: CommandContext) async throws {
        let (handler, length, author) = (handler, length?.duration, AuditAuthor.command(reason))
        let pause = try await options.withConnection(context) {
            try await $0.inTransaction { connection throws(PostgresError) in
                try HandlerStates.pause(connection, handler, for: length, by: author)
            }
        }
        guard let pause else { throw CommandFailure.unknownHandler(handler) }
        let end = pause.until.map { " until \($0.shown)" } ?? ""
        context.console.message("paused \(handler)\(end)")
    }
}

struct HandlersResume: ProgramCommand {
    static let manual = """
        resume: Resumes a paused handler.
          upstream-worker handlers resume billing
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "The handler's name.") var handler: String
    @OptionGroup var reason: ReasonOption

    func run(in context: CommandContext) async throws {
        let (handler, author) = (handler, reason.author)
        let isKnown = try await options.withConnection(context) {
            try await $0.inTransaction { connection throws(PostgresError) in
                try HandlerStates.resume(connection, handler, by: author)
            }
        }
        guard isKnown else { throw CommandFailure.unknownHandler(handler) }
        context.console.message("resumed \(handler)")
    }
}

struct HandlersRemove: ProgramCommand {
    static let manual = """
        remove: Removes a handler that no worker runs any more, with its deliveries and dead letters.
          upstream-worker handlers remove legacy
          upstream-worker handlers remove legacy --yes   # without asking

        First remove it from the configuration of every worker and restart them. Its subscriptions, waiting \
        deliveries and dead letters are deleted; the messages stay, and a replay can send them to another handler. \
        If it is interrupted, run it again.
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "The handler's name.") var handler: String
    @Flag(help: "Do not ask for confirmation.") var yes = false
    @OptionGroup var reason: ReasonOption
    @Flag(help: "One JSON array with the handler and how many rows were deleted.") var json = false

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
                return try await sweep(states, expecting: state.depth + state.deadLetters, context.console)
            } catch HandlerRemovalError.claimed {
                throw Self.claimed(handler, state.seenAt)
            } catch HandlerRemovalError.unknown {
                throw CommandFailure.unknownHandler(handler)
            }
        }
        if json {
            try context.console.json([["handler": handler, "deleted": deleted] as JSONMembers])
        } else {
            context.console.message("removed \(handler) with \(deleted) deliveries and dead letters")
        }
    }

    private func sweep(_ states: HandlerStates, expecting total: Int, _ console: Terminal) async throws -> Int {
        let bar = ProgressBar("removing \(handler)", on: console)
        defer { bar.clear() }
        var deleted = 0
        while case let count = try await states.sweep(handler), count > 0 {
            deleted += count
            bar.show(Int64(deleted), of: Int64(max(total, deleted)))
        }
        try await states.removed(handler, with: deleted, by: reason.author)
        return deleted
    }

    private func confirm(_ state: HandlerState, _ console: Terminal) throws {
        let limit = 100_000
        func amount(_ count: Int) -> String { Amount.count(count) + (count == limit ? " or more" : "") }
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
            "a worker runs \(handler) (last seen \(seenAt.shown)): remove it from the configuration, restart "
                + "the workers and try again after two minutes"
        )
    }
}

enum KnownHandlers {
    /// Throws if no handler of this name is registered, with a suggestion; nil passes.
    static func require(_ name: String?, _ connection: PostgresConnection) async throws {
        guard let name else { return }
        let known = try await HandlerStates(connection).list(counted: 1).map(\.name)
        guard !known.contains(name) else { return }
        throw CommandFailure.unknownHandler(name, among: known)
    }
}
