import ArgumentParser
import MessageStore
import Vocabulary
import Worker

/// `handlers list`.
struct HandlersList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows every registered handler; counts stop at 100000, shown as 100000+.",
        discussion: """
            Examples:
              upstream-worker handlers list
              upstream-worker handlers list --json | jq '.[] | select(.is_claimed | not)'

            failing: the circuit breaker of at least one worker is open; the handler gets \
            nothing but a probe at the time shown. With --json its state is active, and its circuit open or half_open. \
            held: the handler asked for a pause (Retry-After) that lasts until the time shown; `handlers resume` ends it. \
            With --json its state is active, and held_until the time. \
            unclaimed: no worker has run the handler for two minutes; its messages wait. Configure it, or remove it with \
            `handlers remove`. A handler receives every category that at least one of its workers asks for. A worker that \
            was stopped no longer counts; one that crashed counts until it has been silent for ten minutes. \
            With --json, waiting_is_at_least and dead_letters_is_at_least say that a count stopped at its limit: there \
            may be more.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: ListOptions

    private struct Row: Encodable {
        var handler: String
        var state: String
        var isClaimed: Bool
        var circuit: String?
        var nextProbeSeconds: Double?
        var seenAt: String
        var pausedUntil: String?
        var pausedReason: String?
        var heldUntil: String?
        var heldReason: String?
        var waiting: Int
        var waitingIsAtLeast: Bool
        var oldestAgeSeconds: Double?
        var deadLetters: Int
        var deadLettersIsAtLeast: Bool
        var categories: [String]
        var workers: [Worker]
        /// Not a member of the JSON object, which has `circuit`.
        private var isFailing: Bool

        private enum CodingKeys: CodingKey {
            case handler, state, isClaimed, circuit, nextProbeSeconds, seenAt, pausedUntil, pausedReason, heldUntil
            case heldReason, waiting, waitingIsAtLeast, oldestAgeSeconds, deadLetters, deadLettersIsAtLeast, categories
            case workers
        }

        init(_ handler: HandlerState, _ breaker: HandlerBreaker?) {
            self.handler = handler.name
            circuit = breaker?.circuit
            nextProbeSeconds = breaker?.nextProbe
            // A closed set since the first version: that the circuit is open is said beside it.
            state = handler.isPaused ? "paused" : handler.isClaimed ? "active" : "unclaimed"
            isFailing = state == "active" && breaker?.isFailing ?? false
            isClaimed = handler.isClaimed
            seenAt = ShownTime.full(handler.seenAt)
            pausedUntil = handler.pausedUntil.map(ShownTime.full)
            pausedReason = handler.pausedReason
            heldUntil = handler.heldUntil.map(ShownTime.full)
            heldReason = handler.heldReason
            waiting = handler.depth
            waitingIsAtLeast = handler.depth >= HandlerState.countLimit
            oldestAgeSeconds = handler.oldestAge.map { max(0, Double($0.microseconds) / 1e6) }
            deadLetters = handler.deadLetters
            deadLettersIsAtLeast = handler.deadLetters >= HandlerState.countLimit
            categories = handler.categories
            workers = handler.workers.map(Worker.init)
        }

        private var shownState: String {
            if state == "active", let heldUntil { return "held until \(ShownTime.short(heldUntil))" }
            return (isFailing ? "failing" : state) + (pausedUntil.map { " until \(ShownTime.short($0))" } ?? "") + probe
        }

        private var probe: String {
            guard isFailing else { return "" }
            guard let nextProbeSeconds else { return ", probing now" }
            return nextProbeSeconds < 1
                ? ", next probe now" : ", next probe in \(Amount.time(nextProbeSeconds.rounded()))"
        }

        private static func count(_ count: Int, _ isAtLeast: Bool) -> String { "\(count)" + (isAtLeast ? "+" : "") }

        var cells: [String] {
            [
                handler, shownState, Self.count(waiting, waitingIsAtLeast),
                oldestAgeSeconds.map(Amount.time) ?? "-", Self.count(deadLetters, deadLettersIsAtLeast),
                categories.joined(separator: ",") + ((pausedReason ?? heldReason).map { "  (\($0))" } ?? ""),
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
                ShownTime.short(seenAt) + (isLive ? "" : "  (silent)"),
            ]
        }
    }

    func run(in context: CommandContext) async throws {
        let console = context.console
        let rows = try await options.withConnection(context) { connection in
            let breakers = try await HandlerBreaker.all(connection)
            return try await HandlerStates(connection).list().map { Row($0, breakers[$0.name]) }
        }
        let columns: [TextTable.Column] = [
            "HANDLER", .init("STATE", minimum: 10).ofStates, "WAITING",
            .init("OLDEST", name: "oldest_age_seconds", dropOrder: 2), .init("DEAD", name: "dead_letters"),
            .init("CATEGORIES", minimum: 10, dropOrder: 1, cut: .middle),
        ]
        let list = RowList<Row>(none: "no handlers are registered", columns: columns) {
            $0.cells
        } json: {
            try Console.object($0, isForTerminal: $1)
        }
        try console.show(rows, output, list)
        guard try output.chosen(console) == .table, output.columns == nil else { return }
        let workers = rows.flatMap { row in row.workers.map { $0.cells(row.handler) } }
        guard !workers.isEmpty else { return }
        console.data("")
        let workerColumns: [TextTable.Column] = [
            "HANDLER", "ASKED FOR BY", .init("CATEGORIES", minimum: 10, dropOrder: 1, cut: .middle),
            .init("LAST SEEN", dropOrder: 2),
        ]
        console.show(TextTable(workerColumns, workers), way: "--json has all")
    }
}
