import ArgumentParser
import MessageStore
import UpstreamKit
import Worker

/// `dead list`.
struct DeadList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows dead letters, the latest first.",
        discussion: """
            Examples:
              upstream-worker dead list --handler billing --since 1h
              upstream-worker dead list --group "webhook status 503" --json
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeadFilter
    @Option(help: "The most rows to show.")
    var limit = 50
    @Flag(help: "One JSON array instead of a table.")
    var json = false

    func run(in context: CommandContext) async throws {
        guard limit > 0 else { throw CommandFailure(.usage, "--limit must be above zero") }
        let filter = try filter.make()
        let letters = try await options.withConnection(context) { connection in
            let letters = DeadLetters(connection)
            return try await letters.list(letters.judge(filter), limit: limit)
        }
        if json { return try context.console.json(letters.map(DeadRow.init)) }
        let cells = letters.map {
            [
                ShownTime.short($0.diedAt), $0.handler, $0.messageKey.description, $0.category ?? "-",
                String($0.attempts), $0.group,
            ]
        }
        let columns: [TextTable.Column] = [
            "DIED", .init("HANDLER", dropOrder: 1), "MESSAGE", .init("CATEGORY", minimum: 10, dropOrder: 3),
            .init("ATTEMPTS", dropOrder: 4), .init("ERROR GROUP", minimum: 14, dropOrder: 2),
        ]
        context.console.table(TextTable(columns, cells))
    }
}
