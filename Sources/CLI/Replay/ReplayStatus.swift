import ArgumentParser
import Foundation
import Postgres
import Replaying
import Resources
import Vocabulary

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
        _ = (try output.chosen(context.console), try output.chosen(Self.list.columns))
        try await options.withConnection(context) { connection in
            if let name {
                try await show(name, connection, context.console)
            } else {
                try await list(connection, context.console)
            }
        }
    }

    private func list(_ connection: PostgresConnection, _ console: Terminal) async throws {
        let limit = limit
        let replays = try await connection.run { connection throws(PostgresError) in
            try ReplayTable.list(connection, limit: limit)
        }
        try console.show(replays, output, Self.list)
    }

    private static var list: RowList<Replay> { RowList(none: "no replays") }

    private func show(_ name: String, _ connection: PostgresConnection, _ console: Terminal) async throws {
        let replay = try await ReplayCommand.find(name, connection)
        let detail = try await connection.run { connection throws(PostgresError) in
            try ReplayDetail.read(connection, replay)
        }
        if output.format == .json || output.format == .ndjson {
            return console.data(json: Data(detail.json()))
        }
        ReplayReport.show(detail, console)
    }
}
