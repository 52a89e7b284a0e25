import ArgumentParser
import MessageStore
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `deliveries list`.
struct DeliveriesList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows what waits for handlers and why; what is due first comes first.",
        discussion: """
            Examples:
              upstream-worker deliveries list
              upstream-worker deliveries list --handler billing --since 1h
              upstream-worker deliveries list --group timeout --json

            WHY is one of: due (a worker takes it in its turn), retry (the latest attempt
            failed), postponed (given back without a counted attempt), leased (a worker
            has it in hand), held (the handler asked for a pause, with Retry-After; until
            then nothing is tried, unless `handlers resume` or `deliveries retry-now` ends
            it), paused, unclaimed (no worker runs the handler).
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeliveriesFilter
    @Option(help: "The most rows to show, up to 1000.")
    var limit = 50
    @Option(help: ArgumentHelp("Continue after this, which the previous page has printed.", valueName: "cursor"))
    var after: String?
    @OptionGroup var output: ListOptions
    @OptionGroup var reading: ReadOptions

    private struct Row: Encodable {
        var handler: String
        var messageKey: String
        var category: String?
        var receivedAt: String
        var why: String
        var dueAt: String
        var attempts: Int
        var errorGroup: String?
        var error: String?
        var worker: String?
        var leaseUntil: String?
        var pausedUntil: String?
        var heldUntil: String?
        var heldReason: String?
        var replayId: String?
        var isInBlock: Bool

        init(_ row: WaitingDelivery) {
            handler = row.handler
            messageKey = row.messageKey.description
            category = row.category
            receivedAt = ShownTime.full(row.receivedAt)
            why = row.reason.rawValue
            dueAt = ShownTime.full(row.dueAt)
            attempts = row.attempts
            errorGroup = row.errorGroup
            error = row.error
            worker = row.leaseOwner
            leaseUntil = row.leaseUntil.map(ShownTime.full)
            pausedUntil = row.pausedUntil.map(ShownTime.full)
            heldUntil = row.heldUntil.map(ShownTime.full)
            heldReason = row.heldReason
            replayId = row.replayID?.description
            isInBlock = row.isInBlock
        }
    }

    func run(in context: CommandContext) async throws {
        guard (1...1_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 1 to 1000") }
        _ = (try output.chosen(context.console), try output.chosen(Self.list.columns))
        var query = WaitingQuery()
        query.limit = limit
        if let after {
            guard let cursor = WaitingCursor(after) else {
                throw CommandFailure(.usage, "--after takes what the previous page has printed")
            }
            query.cursor = cursor
        }
        _ = try filter.make(now: .now)
        let chosen = query
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            var query = chosen
            query.filter = try await filter.judged(connection)
            return try await query.rows(connection)
        }
        try context.console.show(rows.map(Row.init), output, Self.list)
        if rows.count == limit, let last = rows.last { context.console.message("more: --after '\(last.cursor)'") }
    }

    private static var list: RowList<Row> {
        RowList(
            none: "no deliveries match",
            columns: [
                .init("DUE", name: "due_at"), .init("HANDLER", minimum: 8), .init("MESSAGE", name: "message_key"),
                .init("CATEGORY", minimum: 10, dropOrder: 4, cut: .middle), .init("WHY", dropOrder: 1).ofStates,
                .init("ATTEMPTS", dropOrder: 3), .init("ERROR", name: "error_group", minimum: 14, dropOrder: 2),
                .extra("RECEIVED", name: "received_at"), .extra("LATEST ERROR", name: "error"),
                .extra("WORKER", name: "worker"),
            ]
        ) { row in
            [
                ShownTime.short(row.dueAt), row.handler, row.messageKey, row.category ?? "-",
                row.why == WaitingDelivery.Reason.held.rawValue
                    ? "held until \(row.heldUntil.map(ShownTime.short) ?? "-")" : row.why,
                String(row.attempts),
                row.errorGroup ?? row.error ?? row.heldReason ?? "-", ShownTime.short(row.receivedAt), row.error ?? "-",
                row.worker ?? "-",
            ]
        } json: {
            try Console.object($0, isForTerminal: $1)
        }
    }
}
