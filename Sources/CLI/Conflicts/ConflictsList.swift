import ArgumentParser
import Querying
import Resources
import Vocabulary

struct ConflictsList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows conflicts, one row for each distinct content, the latest first.",
        discussion: """
            Examples:
              upstream-worker conflicts list --since 1d
              upstream-worker conflicts list --where 'data.total>100' --json
              upstream-worker conflicts list --columns message_key,fingerprint --csv
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Option(help: "The most rows to show, up to 1000.")
    var limit = 50
    @Option(help: ArgumentHelp("Continue after this place, which the previous page has printed.", valueName: "cursor"))
    var after: String?
    @OptionGroup var format: ListOptions
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
        _ = (try format.chosen(context.console), try format.chosen(Self.list.columns))
        let asked = try filter.asked(context.console)
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            let chosen = try await asked.judged(connection)
            return try await ConflictQuery(filter: chosen, after: cursor, limit: limit).rows(connection)
        }
        try context.console.show(rows.map { $0.shown(to: tokens.sight) }, format, Self.list)
        if rows.count == limit, let last = rows.last { context.console.message("more: --after \(last.cursor)") }
    }

    private static var list: RowList<ConflictRow> { RowList(none: "no conflicts match") }
}
