import ArgumentParser
import Querying
import Resources
import UpstreamKit
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
        _ = (try format.chosen(context.console), try format.chosen(Self.columns))
        let asked = try filter.asked(context.console)
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            let chosen = try await asked.judged(connection)
            return try await ConflictQuery(filter: chosen, after: cursor, limit: limit).rows(connection)
        }
        let list = RowList<ConflictRow>(none: "no conflicts match", columns: Self.columns) { row in
            [
                ShownTime.short(row.copy.message.receivedAtMicroseconds), row.copy.message.messageKey.description,
                String(row.timesSeen), row.releasedAt.map(ShownTime.short) ?? "-", row.copy.message.category,
                row.copy.message.messageID, MessageRow.data(row.copy, tokens: tokens.reveal),
                row.copy.message.senderID, row.copy.message.deviceKey.description, row.fingerprint.description,
                ShownTime.short(row.lastSeenAt),
            ]
        } texts: { row in
            let message = MessageRow.texts(row.copy, tokens: false)
            return [
                message[0], message[1], String(row.timesSeen), row.releasedAt?.rfc3339, message[2], message[3],
                MessageRow.json(row.copy, tokens: tokens.reveal), message[6], message[4], row.fingerprint.description,
                row.lastSeenAt.rfc3339,
            ]
        } json: {
            $0.json(tokens: tokens.reveal, isForTerminal: $1)
        }
        try context.console.show(rows, format, list)
        if rows.count == limit, let last = rows.last { context.console.message("more: --after \(last.cursor)") }
    }

    private static let columns: [TextTable.Column] = [
        .init("RECEIVED", name: "received_at"), .init("KEY", name: "message_key"),
        .init("SEEN", name: "times_seen", dropOrder: 6), .init("RELEASED", name: "released_at", dropOrder: 3),
        .init("CATEGORY", minimum: 10, dropOrder: 1, cut: .middle),
        .init("ID", name: "message_id", minimum: 8, dropOrder: 4, cut: .middle),
        .init("DATA", minimum: 10, dropOrder: 2), .extra("SENDER", name: "sender_id"),
        .extra("DEVICE", name: "device_key"), .extra("FINGERPRINT", name: "fingerprint"),
        .extra("LAST SEEN", name: "last_seen_at"),
    ]
}
