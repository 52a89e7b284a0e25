import ArgumentParser
import Postgres
import Replaying
import Vocabulary
import Worker

/// `replay status`.
struct ReplayStatus: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Lists replays, or shows one with its history.",
        discussion: """
            Examples:
              upstream-worker replay status
              upstream-worker replay status friday
              upstream-worker replay status friday --json
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "The replay's name or id; all replays by default.")
    var name: String?
    @Option(help: "The most replays to list.")
    var limit = 20
    @OptionGroup var output: ListOptions

    func run(in context: CommandContext) async throws {
        guard limit > 0 else { throw CommandFailure(.usage, "--limit must be above zero") }
        guard name == nil || output.isForOne else {
            throw CommandFailure(
                .usage,
                "--csv, --columns and --reverse are for the list; one replay is text, or --json"
            )
        }
        _ = (try output.chosen(context.console), try output.chosen(Self.columns))
        try await options.withConnection(context) { connection in
            if let name {
                try await show(name, connection, context.console)
            } else {
                try await list(connection, context.console)
            }
        }
    }

    private func list(_ connection: PostgresConnection, _ console: Console) async throws {
        let limit = limit
        let replays = try await connection.run { connection throws(PostgresError) in
            try ReplayTable.list(connection, limit: limit)
        }
        let rows = replays.map { Row(replay: $0, report: ReplayReport($0)) }
        let list = RowList<Row>(none: "no replays", columns: Self.columns) {
            let replay = $0.replay
            return [
                replay.name, ReplayReport.state(replay), ReplayReport.share(replay), Amount.count(replay.planned),
                ShownTime.short(replay.createdAt), replay.createdBy, replay.target.description,
            ]
        } json: {
            try Console.object($0.report, isForTerminal: $1)
        }
        try console.show(rows, output, list)
    }

    private struct Row {
        var replay: Replay
        var report: ReplayReport
    }

    private static let columns: [TextTable.Column] = [
        "NAME", .init("STATE").ofStates, "DONE", .init("PLANNED", dropOrder: 1),
        .init("CREATED", name: "created_at", dropOrder: 3),
        .init("BY", name: "created_by", minimum: 10, dropOrder: 4, cut: .middle),
        .init("TO", name: "target", minimum: 12, dropOrder: 2),
    ]

    private func show(_ name: String, _ connection: PostgresConnection, _ console: Console) async throws {
        let replay = try await ReplayCommand.find(name, connection)
        let (history, deliveries) = try await connection.run { connection throws(PostgresError) in
            (
                try ReplayTable.history(connection, of: replay.id),
                try ReplayTable.deliveries(connection, of: replay)
            )
        }
        if output.format == .json || output.format == .ndjson {
            return try console.json(ReplayReport(replay, history: history, deliveries: deliveries))
        }
        ReplayReport.show(replay, history, deliveries, console)
    }
}
