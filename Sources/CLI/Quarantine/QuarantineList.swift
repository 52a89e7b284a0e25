import ArgumentParser
import Querying
import Resources
import UpstreamKit
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
        _ = (try format.chosen(context.console), try format.chosen(Self.columns))
        let asked = try filter.asked()
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            var query = try await asked.judged(connection)
            (query.limit, query.cursor) = (limit, after)
            return try await query.rows(connection)
        }
        let list = RowList<QuarantineRow>(none: "no quarantined stanzas match", columns: Self.columns) { row in
            [
                String(row.id), ShownTime.short(row.receivedAt), String(row.timesSeen),
                ShownTime.short(row.lastSeenAt), row.reason, row.senderID, String(row.byteCount), row.detail,
                row.messageID ?? "-",
            ]
        } json: {
            $0.json(verbatim: false, isForTerminal: $1)
        }
        try context.console.show(rows, format, list)
        if rows.count == limit, let last = rows.last { context.console.message("more: --after \(last.id)") }
    }

    private static let columns: [TextTable.Column] = [
        "ID", .init("RECEIVED", name: "received_at"), .init("SEEN", name: "times_seen", dropOrder: 6),
        .init("LAST SEEN", name: "last_seen_at", dropOrder: 3), "REASON",
        .init("SENDER", name: "sender_id", minimum: 10, dropOrder: 2, cut: .middle), .init("BYTES", dropOrder: 1),
        .init("DETAIL", minimum: 10, dropOrder: 4), .init("MESSAGE ID", minimum: 10, dropOrder: 5, cut: .middle),
    ]
}
