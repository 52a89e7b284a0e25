import ArgumentParser
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `conflicts list`.
struct ConflictsList: ProgramCommand {
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
    @Option(help: ArgumentHelp("Continue after this place, which the previous page has printed.", valueName: "cursor"))
    var after: String?
    @OptionGroup var format: ListFormatOptions
    @OptionGroup var tokens: RevealOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        guard (1...1_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 1 to 1000") }
        let cursor = try after.map { text in
            guard let cursor = ConflictCursor(text) else {
                throw CommandFailure(.usage, "--after takes what the previous page has printed")
            }
            return cursor
        }
        let typed = try filter.make(context.console)
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            let chosen = try await filter.judged(typed, connection)
            return try await ConflictQuery(filter: chosen, after: cursor, limit: limit).rows(connection)
        }
        try context.console.show(rows, as: format.chosen(context.console), tokens: tokens.reveal, Self.columns) { row in
            [
                ShownTime.short(row.copy.message.receivedAtMicroseconds), row.copy.message.messageKey.description,
                String(row.timesSeen), row.releasedAt.map(ShownTime.short) ?? "-", row.copy.message.category,
                row.copy.message.messageID, MessageRow.data(row.copy, tokens: tokens.reveal),
            ]
        } json: {
            $0.json(tokens: tokens.reveal, isForTerminal: $1)
        }
        if rows.count == limit, let last = rows.last { context.console.message("more: --after \(last.cursor)") }
    }

    private static let columns: [TextTable.Column] = [
        "RECEIVED", "KEY", .init("SEEN", dropOrder: 6), .init("RELEASED", dropOrder: 3),
        .init("CATEGORY", minimum: 10, dropOrder: 1), .init("ID", minimum: 8, dropOrder: 4),
        .init("DATA", minimum: 10, dropOrder: 2),
    ]
}
