import ArgumentParser
import Postgres
import Replaying
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
    @Flag(help: "JSON instead of text: an array, or one object for one replay.")
    var json = false

    func run(in context: CommandContext) async throws {
        guard limit > 0 else { throw CommandFailure(.usage, "--limit must be above zero") }
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
        if json { return try console.json(replays.map { ReplayReport($0) }) }
        let rows = replays.map { replay in
            [
                replay.name, ReplayReport.state(replay), ReplayReport.share(replay), Amount.count(replay.planned),
                ShownTime.short(replay.createdAt), replay.createdBy, replay.target.description,
            ]
        }
        let columns: [TextTable.Column] = [
            "NAME", "STATE", "DONE", .init("PLANNED", dropOrder: 1), .init("CREATED", dropOrder: 3),
            .init("BY", minimum: 10, dropOrder: 4), .init("TO", minimum: 12, dropOrder: 2),
        ]
        console.table(TextTable(columns, rows))
    }

    private func show(_ name: String, _ connection: PostgresConnection, _ console: Console) async throws {
        let replay = try await ReplayCommand.find(name, connection)
        let (history, deliveries) = try await connection.run { connection throws(PostgresError) in
            (
                try ReplayTable.history(connection, of: replay.id),
                try ReplayTable.deliveries(connection, of: replay)
            )
        }
        if json {
            return try console.json(ReplayReport(replay, history: history, deliveries: deliveries))
        }
        ReplayReport.show(replay, history, deliveries, console)
    }
}
