import ArgumentParser
import Postgres
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `messages tail`.
struct MessagesTail: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tail",
        abstract: "Shows the latest messages, and with -f those that come, until it is interrupted.",
        discussion: """
            Examples:
              upstream-worker messages tail
              upstream-worker messages tail -f --category com.example.orders
              upstream-worker messages tail -f --where 'data.level=error' --ndjson | jq .data.text

            A message is shown when its transaction has committed. Where that is later than for messages received after
            it, it is shown later: each second the last two seconds are read again, every five seconds the whole
            --overlap, and what was shown is not shown again. A message that commits later than --overlap after it was
            received is not seen. Stopped, or cut off from the database, it goes on from its last look, however long ago
            that was. Where it can't (retention has dropped a day meanwhile; at very high rates the overlap shrinks), a line
            on stderr says which span is missing.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Flag(name: .shortAndLong, help: "Go on with what comes.")
    var follow = false
    @Option(help: "How many of those that are there to begin with, up to 1000.")
    var limit = 10
    @Option(help: "How long after it was received a message may commit and still be shown.")
    var overlap = DurationArgument(seconds: 60)
    @OptionGroup var output: OutputOptions
    @OptionGroup var reading: ReadOptions

    func run() async throws {
        guard (0...1_000).contains(limit) else { throw CommandFailure(.usage, "--limit is 0 to 1000") }
        guard output.chosen != .json else {
            throw CommandFailure(.usage, "tail has no end, and so no JSON array: --ndjson gives an object a line")
        }
        let typed = try filter.make()
        let filter = try await withReader { try await self.filter.judged(typed, $0) }
        guard follow else { return try await withReader { try await begin(filter, screen, $0) } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await TerminationSignal.wait() }
            group.addTask { try await self.followForGood(filter) }
            // Whichever comes first ends both.
            try await group.next()
            group.cancelAll()
        }
    }

    private var screen: TailScreen { TailScreen(output.chosen, tokens: output.reveal) }

    private func withReader<T>(_ body: (PostgresConnection) async throws -> T) async throws -> T {
        try await options.withReader(timeout: reading.timeout.microseconds, body)
    }

    private func begin(_ filter: MessageFilter, _ screen: TailScreen, _ connection: PostgresConnection) async throws {
        try await options.warn(of: filter, connection)
        guard limit > 0 else { return }
        var pager = MessagePager(filter, .newestFirst, limit: limit)
        let page = try await pager.next(connection)
        for row in (0..<page.count).reversed() { try screen.show(page, row) }
        try screen.flush()
    }

    /// Follows over outages of the database: what commits meanwhile is shown when it is back.
    private func followForGood(_ filter: MessageFilter) async throws {
        let screen = screen
        var tail: MessageTail?
        var isDown = false
        while !Task.isCancelled {
            do {
                try await withReader { connection in
                    if tail == nil {
                        // First what counts as known, so that nothing falls between the two.
                        let started = try await MessageTail(filter, overlap: overlap.microseconds, connection)
                        try await begin(filter, screen, connection)
                        tail = started
                    }
                    if isDown { Console.message("the database is back") }
                    isDown = false
                    try await poll(&tail, screen, connection)
                }
            } catch let error as PostgresError
                where tail != nil && [.connection, .intervention, .resources].contains(error.failureClass)
            {
                if Task.isCancelled { return }
                if !isDown { Console.message("database: \(error); waiting for it") }
                isDown = true
                try await Task.sleep(for: .seconds(1))
            }
        }
    }

    private func poll(_ tail: inout MessageTail?, _ screen: TailScreen, _ connection: PostgresConnection) async throws {
        var isToldShortened = false
        while !Task.isCancelled, var next = tail {
            // Also where the poll fails: what it has shown is not shown again.
            defer { tail = next }
            let gap = try await next.poll(connection) { try screen.show($0, $1) }
            try screen.flush()
            switch gap {
            case .dropped(let span):
                Console.message(
                    "missing: messages received \(Self.text(span)) were dropped by retention while this was stopped"
                )
            case .unproven(let span) where !isToldShortened:
                Console.message(
                    "note: too many messages to look back --overlap for; of those received \(Self.text(span)), "
                        + "commits that came late are missing"
                )
                isToldShortened = true
            default: break
            }
            try await Task.sleep(for: .seconds(1))
        }
    }

    private static func text(_ span: Range<Int64>) -> String {
        "from \(ShownTime.full(span.lowerBound)) to \(ShownTime.full(span.upperBound))"
    }
}

/// Where a follower's rows go.
final class TailScreen {
    private let format: OutputFormat
    private let tokens: Bool
    private var rows: RowOutput

    init(_ format: OutputFormat, tokens: Bool) {
        (self.format, self.tokens) = (format, tokens)
        rows = RowOutput(format, tokens: tokens)
    }

    func show(_ page: MessagePage, _ row: Int) throws {
        guard format == .table else { return try rows.append(page, row) }
        guard let message = page.message(row) else { return }
        var cells = MessageRow.cells(message, tokens: tokens).map { TerminalText.escape($0) }
        // No column can be as wide as rows to come, so the line is just cut; the device would leave no room for data.
        cells.remove(at: 4)
        let line = cells.joined(separator: "  ")
        Console.data(Screen.width.map { TerminalText.cut(line, to: $0) } ?? line)
    }

    func flush() throws { if format != .table { try rows.flush() } }
}
