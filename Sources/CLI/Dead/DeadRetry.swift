import ArgumentParser
import MessageStore
import Resources
import Vocabulary

struct DeadRetry: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry",
        abstract: "Queues dead letters for their handlers again, with a fresh count of attempts.",
        discussion: """
            Examples:
              upstream-worker dead retry --handler billing --group "webhook status 503"
              upstream-worker dead retry --handler billing --dry-run
              upstream-worker dead retry --all --yes

            Asks before it retries more than 100.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeadFilter
    @Flag(help: "All dead letters; needed where no filter is given.")
    var all = false
    @Flag(help: "Only show how many of which error group; change nothing.")
    var dryRun = false
    @Flag(help: "Do not ask for confirmation, which more than 100 need.")
    var yes = false
    @OptionGroup var reason: ReasonOption

    func run(in context: CommandContext) async throws {
        try filter.requireSome(all: all)
        if dryRun { return try await plan(context) }
        let console = context.console
        try await filter.work(options, context, all: all, .retry, verb: "retried", by: reason.author) { total in
            try console.confirmMany(total, "Retry \(Amount.count(total)) dead letters?", yes: yes)
        }
    }

    private func plan(_ context: CommandContext) async throws {
        let asked = try filter.asked()
        let groups = try await options.withConnection(context) { connection in
            try await KnownHandlers.require(filter.handler, connection)
            let letters = DeadLetters(connection)
            return try await letters.groups(letters.frozen(asked.judged(connection)))
        }
        if !groups.isEmpty {
            let cells = groups.map { [String($0.count), $0.handler, $0.group] }
            context.console.table(TextTable(["COUNT", "HANDLER", .init("ERROR GROUP", minimum: 14)], cells))
        }
        let total = groups.reduce(0) { $0 + $1.count }
        context.console.message("would retry \(total); nothing was changed")
    }
}
