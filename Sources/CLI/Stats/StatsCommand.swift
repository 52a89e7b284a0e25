import ArgumentParser
import MessageStore
import Vocabulary

/// `stats`: an overview of the store.
struct StatsCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Shows rates, sizes, lag, top categories, partitions and queues.",
        discussion: """
            Examples:
              upstream-worker stats
              upstream-worker stats --watch
              upstream-worker stats --watch 10s --json

            No messages are read: counts marked with ~ are estimates from PostgreSQL's catalog, categories are what \
            ANALYZE sampled, rates are the change of PostgreSQL's counters between two readings. Sizes and times are \
            exact. The database does not record duplicates: /metrics counts them.
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Repeat until Ctrl-C.")
    var watch = false
    @Argument(help: "The time over which rates are measured, and between two updates. Default: 2s.")
    var interval: DurationArgument?
    @Option(help: "How many categories to show.")
    var categories = 10
    @Flag(help: "One JSON object per line instead of text.")
    var json = false

    func run(in context: CommandContext) async throws {
        guard categories >= 0 else { throw CommandFailure(.usage, "--categories must be zero or more") }
        let length = Duration.microseconds(interval?.microseconds ?? 2_000_000)
        let console = context.console
        let block = LiveBlock(console, on: console.output, isRedrawn: watch)
        try await options.withConnection(context) { connection in
            var before = try await StoreStatistics.take(connection, categories: categories)
            repeat {
                try await Task.sleep(for: length)
                let now = try await StoreStatistics.take(connection, categories: categories)
                let rates = StoreRates(from: before, to: now)
                if json {
                    try console.json(StatsDocument(now, rates))
                } else {
                    block.show(StatsDocument(now, rates).lines(width: console.width))
                }
                before = now
            } while watch
        }
    }
}
