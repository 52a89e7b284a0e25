import ArgumentParser
import Querying
import Resources
import Vocabulary

struct QuarantineList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows quarantined stanzas without their bytes, the latest first.",
        discussion: """
            Examples:
              upstream-worker quarantine list --since 1d
              upstream-worker quarantine list --reason category_unusable --json
              upstream-worker quarantine list --columns id,reason,message_id
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: QuarantineFilter
    @Option(help: "The most rows to show, up to 10000.")
    var limit = 50
    @Option(help: ArgumentHelp("Continue after this id, which the previous page has printed.", valueName: "id"))
    var after: Int64?
    @OptionGroup var format: ListOptions
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        guard (1...10_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 1 to 10000") }
        _ = (try format.chosen(context.console), try format.chosen(Self.list.columns))
        let asked = try filter.asked()
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            var query = try await asked.judged(connection)
            (query.limit, query.cursor) = (limit, after)
            return try await query.rows(connection)
        }
        try context.console.show(rows, format, Self.list)
        if rows.count == limit, let last = rows.last { context.console.message("more: --after \(last.id)") }
    }

    private static var list: RowList<QuarantineRow> { RowList(none: "no quarantined stanzas match") }
}
