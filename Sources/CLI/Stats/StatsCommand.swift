import ArgumentParser
import MessageStore
import Postgres
import Telemetry
import Vocabulary
import Worker

/// `stats`: the store at a glance.
struct StatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Shows rates, sizes, lag, top categories, partitions and queues.",
        discussion: """
            Examples:
              upstream-worker stats
              upstream-worker stats --watch
              upstream-worker stats --watch 10s --json

            No table of messages is read: rows marked with ~ are estimates from PostgreSQL's catalog, categories what \
            ANALYZE sampled, rates the change of PostgreSQL's counters between two looks. Sizes and times are exact. \
            Duplicates leave no trace in the database: /metrics counts them.
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Look again and again, until Ctrl-C.")
    var watch = false
    @Argument(help: "The time between two looks, over which rates are measured. Default: 2s.")
    var interval: DurationArgument?
    @Option(help: "How many categories to show.")
    var categories = 10
    @Flag(help: "JSON objects, one a line, instead of text.")
    var json = false

    func run() async throws {
        guard categories >= 0 else { throw CommandFailure(.usage, "--categories must not be below zero") }
        let length = Duration.microseconds(interval?.microseconds ?? 2_000_000)
        let screen = StatsScreen(isTerminal: watch && !json)
        try await options.withConnection { connection in
            var before = try await StoreStatistics.take(connection, categories: categories)
            repeat {
                try await Task.sleep(for: length)
                let now = try await StoreStatistics.take(connection, categories: categories)
                let rates = StoreRates(from: before, to: now)
                if json {
                    try Console.json(StatsDocument(now, rates))
                } else {
                    screen.show(StatsDocument(now, rates).lines)
                }
                before = now
            } while watch
        }
    }
}
