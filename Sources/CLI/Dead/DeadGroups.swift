import ArgumentParser
import MessageStore
import Worker

/// `dead groups`.
struct DeadGroups: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "groups",
        abstract: "Counts dead letters by their error.",
        discussion: """
            Examples:
              upstream-worker dead groups
              upstream-worker dead groups --handler billing --since 1d --json
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeadFilter
    @OptionGroup var output: ListOptions

    private struct Row: Encodable {
        var handler: String
        var errorGroup: String
        var count: Int
        var firstDiedAt: String
        var lastDiedAt: String
    }

    func run(in context: CommandContext) async throws {
        _ = (try output.chosen(context.console), try output.chosen(Self.columns))
        let filter = try filter.make()
        let groups = try await options.withConnection(context) { connection in
            let letters = DeadLetters(connection)
            return try await letters.groups(letters.judge(filter))
        }
        let rows = groups.map {
            Row(
                handler: $0.handler,
                errorGroup: $0.group,
                count: $0.count,
                firstDiedAt: ShownTime.full($0.first),
                lastDiedAt: ShownTime.full($0.last)
            )
        }
        let list = RowList<Row>(none: "no dead letters match", columns: Self.columns) { row in
            [
                String(row.count), row.handler, ShownTime.short(row.firstDiedAt), ShownTime.short(row.lastDiedAt),
                row.errorGroup,
            ]
        } json: {
            try Console.object($0, isForTerminal: $1)
        }
        try context.console.show(rows, output, list)
    }

    private static let columns: [TextTable.Column] = [
        "COUNT", "HANDLER", .init("FIRST", name: "first_died_at", dropOrder: 2),
        .init("LAST", name: "last_died_at", dropOrder: 1), .init("ERROR GROUP", minimum: 14),
    ]
}
