import ArgumentParser
import Postgres
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `messages list`.
struct MessagesList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows messages, the latest first.",
        discussion: """
            Examples:
              upstream-worker messages list --category com.example.orders --since 2h
              upstream-worker messages list --since yesterday --until today --where 'data.status!=ok' --csv > odd.csv
              upstream-worker messages list --device 5f3c2b1a-0000-4000-8000-000000000001 --limit 10

            What the clauses of --where mean stands in docs/queries.md.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Option(help: "The most messages to show, up to 100000; `messages export` gives any number.")
    var limit = 50
    @Option(help: ArgumentHelp("Go on after this place, which the page before has named.", valueName: "cursor"))
    var after: String?
    @OptionGroup var output: OutputOptions
    @OptionGroup var reading: ReadOptions

    func run() async throws {
        guard (1...100_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 1 to 100000") }
        let cursor = try after.map { text in
            guard let cursor = MessageCursor(text) else {
                throw CommandFailure(.usage, "--after takes what the page before has named: a time, a slash and a key")
            }
            return cursor
        }
        let typed = try filter.make()
        try await options.withReader(timeout: reading.timeout.microseconds) { connection in
            let filter = try await filter.judged(typed, connection)
            try await options.warn(of: filter, connection)
            var pager = MessagePager(filter, .newestFirst, limit: 0, after: cursor)
            pager.byteLimit = 4 << 20
            let end = output.chosen == .table ? try await table(&pager, connection) : try await rows(&pager, connection)
            if let end { Console.message("more: --after \(end)") }
        }
    }

    /// Prints up to the limit; gives the place behind which there may be more.
    private func rows(_ pager: inout MessagePager, _ connection: PostgresConnection) async throws -> MessageCursor? {
        var rows = RowOutput(output.chosen, tokens: output.reveal)
        let end = try await each(&pager, connection) { try rows.append($0, $1) }
        try rows.finish()
        return end
    }

    private func table(_ pager: inout MessagePager, _ connection: PostgresConnection) async throws -> MessageCursor? {
        var table = TextTable(MessageRow.columns(tokens: output.reveal))
        let end = try await each(&pager, connection) { page, row in
            guard let message = page.message(row) else { return }
            table.append(MessageRow.cells(message, tokens: output.reveal))
        }
        for line in table.lines(width: Screen.width) { Console.data(line) }
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

/// A message as a row of a table.
enum MessageRow {
    static func columns(tokens: Bool) -> [TextTable.Column] {
        [
            TextTable.Column("RECEIVED"), TextTable.Column("KEY"), TextTable.Column("CATEGORY", minimum: 10),
            TextTable.Column("ID", minimum: 8, dropOrder: 2), TextTable.Column("DEVICE", dropOrder: 4),
        ] + (tokens ? [TextTable.Column("TOKEN", dropOrder: 3)] : [])
            + [TextTable.Column("DATA", minimum: 10, dropOrder: 1)]
    }

    static func cells(_ stored: StoredMessage, tokens: Bool) -> [String] {
        let message = stored.message
        return [
            ShownTime.short(message.receivedAtMicroseconds), message.messageKey.description, message.category,
            message.messageID, message.deviceKey.description,
        ] + (tokens ? [message.registrationToken.rawValue] : []) + [data(stored)]
    }

    /// The beginning of the data, on one line.
    static func data(_ stored: StoredMessage) -> String {
        guard let data = stored.message.data else { return "-" }
        return String(
            decoding: data.prefix(400).map { $0 == 0x0A || $0 == 0x0D || $0 == 0x09 ? 0x20 : $0 },
            as: UTF8.self
        )
    }
}
