import ArgumentParser
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `quarantine list`.
struct QuarantineList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows quarantined stanzas without their bytes, the latest first."
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: QuarantineCommand.Filter
    @Option(help: "The most rows to show, up to 10000.")
    var limit = 50
    @Option(help: ArgumentHelp("Go on after this id, which the page before has named.", valueName: "id"))
    var after: Int64?
    @Flag(help: "One JSON array instead of a table.")
    var json = false
    @Flag(help: "One JSON object a line.")
    var ndjson = false
    @OptionGroup var reading: ReadOptions

    func run() async throws {
        guard (1...10_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 1 to 10000") }
        var query = try filter.make()
        query.limit = limit
        query.cursor = after
        let chosen = query
        let rows = try await options.withReader(timeout: reading.timeout.microseconds) {
            try await filter.judged(chosen, $0).rows($0)
        }
        if json || ndjson || !Screen.isTerminal {
            var output = RowOutput(json ? .json : .ndjson, tokens: false)
            for row in rows {
                try output.append(object: row.json(verbatim: false, isForTerminal: Screen.isTerminal))
            }
            try output.finish()
        } else {
            var table = TextTable([
                TextTable.Column("ID"), TextTable.Column("RECEIVED"), TextTable.Column("SEEN"),
                TextTable.Column("LAST SEEN", dropOrder: 3), TextTable.Column("REASON"),
                TextTable.Column("SENDER", minimum: 10, dropOrder: 2), TextTable.Column("BYTES", dropOrder: 1),
                TextTable.Column("DETAIL", minimum: 10, dropOrder: 4),
                TextTable.Column("MESSAGE ID", minimum: 10, dropOrder: 5),
            ])
            for row in rows {
                table.append([
                    String(row.id), ShownTime.short(row.receivedAt), String(row.timesSeen),
                    ShownTime.short(row.lastSeenAt), row.reason, row.senderID, String(row.byteCount), row.detail,
                    row.messageID ?? "-",
                ])
            }
            for line in table.lines(width: Screen.width) { Console.data(line) }
        }
        if rows.count == limit, let last = rows.last { Console.message("more: --after \(last.id)") }
    }
}
