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
    @Flag(help: "One JSON array instead of a table.")
    var json = false

    private struct Row: Encodable {
        var handler: String
        var errorGroup: String
        var count: Int
        var firstDiedAt: String
        var lastDiedAt: String
    }

    func run(in context: CommandContext) async throws {
        let filter = try filter.make()
        let groups = try await options.withConnection(context) { connection in
            let letters = DeadLetters(connection)
            return try await letters.groups(letters.judge(filter))
        }
        if json {
            return try context.console.json(
                groups.map {
                    Row(
                        handler: $0.handler,
                        errorGroup: $0.group,
                        count: $0.count,
                        firstDiedAt: ShownTime.full($0.first),
                        lastDiedAt: ShownTime.full($0.last)
                    )
                }
            )
        }
        let columns: [TextTable.Column] = [
            "COUNT", "HANDLER", .init("FIRST", dropOrder: 2), .init("LAST", dropOrder: 1),
            .init("ERROR GROUP", minimum: 14),
        ]
        let cells = groups.map {
            [String($0.count), $0.handler, ShownTime.short($0.first), ShownTime.short($0.last), $0.group]
        }
        context.console.table(TextTable(columns, cells))
    }
}
