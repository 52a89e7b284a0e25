import ArgumentParser
import MessageStore
import Vocabulary
import Worker

/// `handlers list`.
struct HandlersList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows every registered handler; counts stop at 100000.",
        discussion: """
            Examples:
              upstream-worker handlers list
              upstream-worker handlers list --json | jq '.[] | select(.is_claimed | not)'

            unclaimed: no worker has run the handler for two minutes; its messages wait. Configure it, or remove it with \
            `handlers remove`. A handler receives every category that at least one of its workers asks for. A worker that \
            was stopped no longer counts; one that crashed counts until it has been silent for ten minutes.
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "One JSON array instead of a table.")
    var json = false

    private struct Row: Encodable {
        var handler: String
        var state: String
        var isClaimed: Bool
        var seenAt: String
        var pausedUntil: String?
        var pausedReason: String?
        var waiting: Int
        var oldestAgeSeconds: Double?
        var deadLetters: Int
        var categories: [String]
        var workers: [Worker]

        init(_ handler: HandlerState) {
            self.handler = handler.name
            state = handler.isPaused ? "paused" : handler.isClaimed ? "active" : "unclaimed"
            isClaimed = handler.isClaimed
            seenAt = ShownTime.full(handler.seenAt)
            pausedUntil = handler.pausedUntil.map(ShownTime.full)
            pausedReason = handler.pausedReason
            waiting = handler.depth
            oldestAgeSeconds = handler.oldestAge.map { max(0, Double($0.microseconds) / 1e6) }
            deadLetters = handler.deadLetters
            categories = handler.categories
            workers = handler.workers.map(Worker.init)
        }

        var cells: [String] {
            [
                handler, state + (pausedUntil.map { " until \($0)" } ?? ""), String(waiting),
                oldestAgeSeconds.map { "\(Int($0))s" } ?? "-", String(deadLetters),
                categories.joined(separator: ",") + (pausedReason.map { "  (\($0))" } ?? ""),
            ]
        }
    }

    private struct Worker: Encodable {
        var worker: String
        var categories: [String]
        var byDevice: Bool
        var seenAt: String
        var isLive: Bool

        init(_ worker: HandlerWorker) {
            self.worker = worker.worker
            categories = worker.categories
            byDevice = worker.isByDevice
            seenAt = ShownTime.full(worker.seenAt)
            isLive = worker.isLive
        }

        func cells(_ handler: String) -> [String] {
            [
                handler, worker, categories.joined(separator: ",") + (byDevice ? "  (by device)" : ""),
                seenAt + (isLive ? "" : "  (silent)"),
            ]
        }
    }

    func run(in context: CommandContext) async throws {
        let console = context.console
        let rows = try await options.withConnection(context) { try await HandlerStates($0).list() }.map(Row.init)
        if json { return try console.json(rows) }
        let columns: [TextTable.Column] = [
            "HANDLER", .init("STATE", minimum: 10), "WAITING", .init("OLDEST", dropOrder: 2), "DEAD",
            .init("CATEGORIES", minimum: 10, dropOrder: 1),
        ]
        console.table(TextTable(columns, rows.map(\.cells)))
        let workers = rows.flatMap { row in row.workers.map { $0.cells(row.handler) } }
        guard !workers.isEmpty else { return }
        console.data("")
        let workerColumns: [TextTable.Column] = [
            "HANDLER", "ASKED FOR BY", .init("CATEGORIES", minimum: 10, dropOrder: 1),
            .init("LAST SEEN", dropOrder: 2),
        ]
        console.table(TextTable(workerColumns, workers))
    }
}
