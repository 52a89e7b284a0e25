import ArgumentParser
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `conflicts list`.
struct ConflictsList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows conflicts, one row for each distinct content, the latest first.",
        discussion: """
            Examples:
              upstream-worker conflicts list --since 1d
              upstream-worker conflicts list --where 'data.total>100' --json
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Option(help: "The most rows to show, up to 1000.")
    var limit = 50
    @Option(help: ArgumentHelp("Go on after this place, which the page before has named.", valueName: "cursor"))
    var after: String?
    @Flag(help: "One JSON array instead of a table.")
    var json = false
    @Flag(help: "One JSON object a line; the default where stdout is no terminal.")
    var ndjson = false
    @Flag(help: "Show registration tokens. They are credentials.")
    var reveal = false
    @OptionGroup var reading: ReadOptions

    func run() async throws {
        guard (1...1_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 1 to 1000") }
        let cursor = try after.map { text in
            guard let cursor = ConflictCursor(text) else {
                throw CommandFailure(.usage, "--after takes what the page before has named")
            }
            return cursor
        }
        let typed = try filter.make()
        let rows = try await options.withReader(timeout: reading.timeout.microseconds) { connection in
            let chosen = try await filter.judged(typed, connection)
            return try await ConflictQuery(filter: chosen, after: cursor, limit: limit).rows(connection)
        }
        if json || ndjson || !Screen.isTerminal {
            var output = RowOutput(json ? .json : .ndjson, tokens: reveal)
            for row in rows { try output.append(object: row.json(tokens: reveal, isForTerminal: Screen.isTerminal)) }
            try output.finish()
        } else {
            var table = TextTable([
                TextTable.Column("RECEIVED"), TextTable.Column("KEY"), TextTable.Column("SEEN"),
                TextTable.Column("RELEASED", dropOrder: 3), TextTable.Column("CATEGORY", minimum: 10, dropOrder: 1),
                TextTable.Column("ID", minimum: 8, dropOrder: 4), TextTable.Column("DATA", minimum: 10, dropOrder: 2),
            ])
            for row in rows {
                table.append([
                    ShownTime.short(row.copy.message.receivedAtMicroseconds), row.copy.message.messageKey.description,
                    String(row.timesSeen), row.releasedAt.map(ShownTime.short) ?? "-", row.copy.message.category,
                    row.copy.message.messageID, MessageRow.data(row.copy),
                ])
            }
            for line in table.lines(width: Screen.width) { Console.data(line) }
        }
        if rows.count == limit, let last = rows.last { Console.message("more: --after \(last.cursor)") }
    }
}
