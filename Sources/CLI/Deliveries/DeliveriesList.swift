import ArgumentParser
import MessageStore
import Resources
import Vocabulary

struct DeliveriesList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows what waits for handlers and why; what is due first comes first.",
        discussion: """
            Examples:
              upstream-worker deliveries list
              upstream-worker deliveries list --handler billing --since 1h
              upstream-worker deliveries list --group timeout --json

            REASON is one of: due (a worker takes it in its turn), retry (the latest attempt
            failed), postponed (given back without a counted attempt), leased (a worker
            has it in hand), held (the handler asked for a pause, with Retry-After; until
            then nothing is tried, unless `handlers resume` or `deliveries retry-now` ends
            it), paused, unclaimed (no worker runs the handler).
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeliveriesFilter
    @Option(help: "The most rows to show, up to 1000.")
    var limit = 50
    @Option(help: ArgumentHelp("Continue after this, which the previous page has printed.", valueName: "cursor"))
    var after: String?
    @OptionGroup var output: ListOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        guard (1...1_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 1 to 1000") }
        _ = (try output.chosen(context.console), try output.chosen(Self.list.columns))
        let cursor = after.flatMap(WaitingCursor.init)
        guard after == nil || cursor != nil else {
            throw CommandFailure(.usage, "--after takes what the previous page has printed")
        }
        let asked = try filter.asked()
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            try await KnownHandlers.require(filter.handler, connection)
            return try await WaitingDeliveries(connection).list(asked.judged(connection), after: cursor, limit: limit)
        }
        try context.console.show(rows, output, Self.list)
        if rows.count == limit, let last = rows.last { context.console.message("more: --after '\(last.cursor)'") }
    }

    private static var list: RowList<WaitingDelivery> { RowList(none: "no deliveries match") }
}
