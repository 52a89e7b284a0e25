import ArgumentParser
import Postgres
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `messages list`.
struct MessagesList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows messages, the latest first.",
        discussion: """
            Examples:
              upstream-worker messages list --category com.example.orders --since 2h
              upstream-worker messages list --since yesterday --until today --where 'data.status!=ok' --csv > odd.csv
              upstream-worker messages list --device 5f3c2b1a-0000-4000-8000-000000000001 --limit 10

            docs/queries.md describes the clauses of --where.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Option(help: "The most messages to show, up to 100000; `messages export` gives any number.")
    var limit = 50
    @Option(help: ArgumentHelp("Continue after this place, which the previous page has printed.", valueName: "cursor"))
    var after: String?
    @OptionGroup var output: OutputOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        guard (1...100_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 1 to 100000") }
        let cursor = try after.map { text in
            guard let cursor = MessageCursor(text) else {
                throw CommandFailure(
                    .usage,
                    "--after takes what the previous page has printed: a time, a slash and a key"
                )
            }
            return cursor
        }
        let console = context.console
        let typed = try filter.make(context.console)
        try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            let filter = try await filter.judged(typed, connection)
            try await options.warn(of: filter, connection, console)
            var pager = MessagePager(filter, .newestFirst, limit: 0, after: cursor)
            pager.byteLimit = 4 << 20
            let end =
                output.chosen(console) == .table
                ? try await table(&pager, connection, console) : try await rows(&pager, connection, console)
            if let end { console.message("more: --after \(end)") }
        }
    }

    /// Prints up to the limit; returns the place after which there may be more.
    private func rows(
        _ pager: inout MessagePager,
        _ connection: PostgresConnection,
        _ console: Console
    ) async throws -> MessageCursor? {
        var rows = RowOutput(output.chosen(console), tokens: output.reveal, to: console)
        let end = try await each(&pager, connection) { try rows.append($0, $1) }
        try rows.finish()
        return end
    }

    private func table(
        _ pager: inout MessagePager,
        _ connection: PostgresConnection,
        _ console: Console
    ) async throws -> MessageCursor? {
        var table = TextTable(MessageRow.columns(tokens: output.reveal))
        let end = try await each(&pager, connection) { page, row in
            let message = try page.message(row)
            table.append(MessageRow.cells(message, tokens: output.reveal))
        }
        console.table(table)
        return end
    }

    private func each(
        _ pager: inout MessagePager,
        _ connection: PostgresConnection,
        _ body: (MessagePage, Int) throws -> Void
    ) async throws -> MessageCursor? {
        var left = limit
        while left > 0 {
            pager.limit = min(left, 1_000)
            let page = try await pager.next(connection)
            for row in 0..<page.count { try body(page, row) }
            left -= page.count
            if !page.isFull { return nil }
        }
        return pager.cursor
    }
}
