import ArgumentParser
import Postgres
import Querying
import Resources
import Vocabulary

struct MessagesCommand: DescribedCommand {
    static let manual = """
        messages: Looks up, follows and exports stored messages.
          upstream-worker messages list --category com.example.orders --since 2h
          upstream-worker messages list --since 1d --where 'data.order.total>100' \\
            --where 'data.coupon exists'
          upstream-worker messages list --from-token-file token.txt --json
          upstream-worker messages show 7d1c0a52-0000-4000-8000-000000000001
          upstream-worker messages tail -f --category com.example.orders
          upstream-worker messages export --since 2026-01-01 --until 2026-02-01 \\
            --output january.ndjson
        """
    static let subcommands: Subcommands = [
        MessagesList.self, MessagesShow.self, MessagesTail.self, MessagesExport.self,
    ]
}

struct MessagesList: ProgramCommand {
    static let manual = """
        list: Shows messages, the latest first.
          upstream-worker messages list --category com.example.orders --since 2h
          upstream-worker messages list --since yesterday --until today \\
            --where 'data.status!=ok' --csv > odd.csv
          upstream-worker messages list --limit 10 \\
            --device 5f3c2b1a-0000-4000-8000-000000000001
          upstream-worker messages list --columns received_at,message_id,data --reverse

        docs/queries.md describes the clauses of --where.
        """

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Option(help: "The most messages to show, up to 100000; `messages export` gives any number.") var limit = 50
    @Option(help: .value("cursor", "Continue after this place, which the previous page has printed."))
    var after: String?
    @OptionGroup var output: ListOptions
    @OptionGroup var tokens: RevealOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        guard (1...100_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 1 to 100000") }
        // All rows are needed before the first is printed.
        guard limit <= 10_000 || !output.reverse && output.columns == nil else {
            throw CommandFailure(
                .usage,
                "--limit is 1 to 10000 with --reverse or --columns; `messages export` gives more"
            )
        }
        _ = try output.chosen(list.columns)
        let cursor = try after.map { text in
            guard let cursor = MessageCursor(text) else {
                throw CommandFailure(
                    .usage,
                    "--after takes what the previous page has printed: a time, a slash and a key"
                )
            }
            return cursor
        }
        let format = try output.chosen(context.console)
        let console = context.console
        let asked = try filter.asked(context.console)
        try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            let filter = try await asked.judged(connection)
            try await options.warn(of: filter, connection, console)
            var pager = MessagePager(filter, .newestFirst, limit: 0, after: cursor)
            pager.byteLimit = 4 << 20
            let end =
                output.columns != nil || format == .table
                ? try await table(&pager, format, connection, console)
                : try await rows(&pager, format, connection, console)
            if let end { console.message("more: --after \(end)") }
        }
    }

    /// Prints rows up to the limit, as they come; returns the position after which there may be more.
    private func rows(
        _ pager: inout MessagePager,
        _ format: OutputFormat,
        _ connection: PostgresConnection,
        _ console: Terminal
    ) async throws -> MessageCursor? {
        var rows = RowOutput(format, tokens: tokens.reveal, isReversed: output.reverse, to: console)
        var count = 0
        let end = try await each(&pager, connection) { page, row in
            count += 1
            try rows.append(page, row)
        }
        try rows.finish()
        if count == 0 { console.message(list.none) }
        return end
    }

    private var list: RowList<StoredMessage> { RowList(none: "no messages match", tokens: tokens.reveal) }

    /// Reads up to the limit, then prints the chosen columns; returns the position after which there may be more.
    private func table(
        _ pager: inout MessagePager,
        _ format: OutputFormat,
        _ connection: PostgresConnection,
        _ console: Terminal
    ) async throws -> MessageCursor? {
        // Not the messages, which may be large.
        var rows: [(cells: [String], texts: [String?])] = []
        let (list, sight) = (list, tokens.sight)
        let end = try await each(&pager, connection) { page, row in
            let message = try page.message(row).shown(to: sight)
            rows.append(format == .csv ? ([], try list.texts(message)) : (try list.cells(message), []))
        }
        var columns = list.columns
        if let place = columns.firstIndex(where: { $0.name == MessageColumn.messageKey.name }) {
            // A narrow terminal shows no more of a key than `messages show` needs.
            columns[place].minimum = Self.distinctLength(rows.compactMap { $0.cells.isEmpty ? nil : $0.cells[place] })
        }
        try console.show(
            rows,
            output,
            RowList(none: list.none, columns: columns, cells: { $0.cells }, texts: { $0.texts }, json: { _, _ in [] })
        )
        return end
    }

    /// The number of characters, at least 8, that tell these keys apart.
    private static func distinctLength(_ keys: [String]) -> Int {
        let sorted = Set(keys).sorted()
        return zip(sorted, sorted.dropFirst()).reduce(8) { length, pair in
            max(length, zip(pair.0, pair.1).prefix { $0 == $1 }.count + 1)
        }
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
