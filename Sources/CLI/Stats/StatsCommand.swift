import ArgumentParser
import MessageStore
import Vocabulary

struct StatsCommand: ProgramCommand {
    static let manual = """
        stats: Shows rates, sizes, lag, top categories, partitions and queues.
          upstream-worker stats
          upstream-worker stats --watch
          upstream-worker stats --watch 10s --json

        No messages are read: counts marked with ~ are estimates from PostgreSQL's catalog, categories are what \
        ANALYZE sampled, rates are the change of PostgreSQL's counters between two readings. Sizes and times are \
        exact. The database does not record duplicates: /metrics counts them.
        """

    @OptionGroup var options: CommonOptions
    @Flag(help: "Repeat until Ctrl-C.") var watch = false
    @Argument(help: "The time over which rates are measured, and between two updates. Default: 2s.")
    var interval: DurationArgument?
    @Option(help: "How many categories to show.") var categories = 10
    @Flag(help: "One JSON object per line instead of text.") var json = false

    func run(in context: CommandContext) async throws {
        guard categories >= 0 else { throw CommandFailure(.usage, "--categories must be zero or more") }
        let length = Duration.microseconds(interval?.microseconds ?? 2_000_000)
        let console = context.console
        let block = LiveBlock(console, on: console.output, isRedrawn: watch)
        try await options.withConnection(context) { connection in
            var before = try await StoreStatistics.take(connection, categories: categories)
            repeat {
                try await Task.sleep(for: length)
                let now = try await StoreStatistics.take(connection, categories: categories)
                let rates = StoreRates(from: before, to: now)
                let document = StatsDocument(now, rates)
                if json {
                    try console.json(document.json)
                } else {
                    block.show(document.lines(width: console.width))
                }
                before = now
            } while watch
        }
    }
}

/// The output of `stats`, as text or JSON: one snapshot's figures, with the rates since the previous one.
struct StatsDocument {
    private let look: StoreStatistics
    private let rates: StoreRates?
    private let tables: [StoreStatistics.Table]

    init(_ look: StoreStatistics, _ rates: StoreRates?) {
        (self.look, self.rates) = (look, rates)
        tables = look.tables.sorted { ($1.bytes, $0.name) < ($0.bytes, $1.name) }
    }

    private var newestAge: Double? { look.newest.map { max(0, (look.takenAt - $0).inSeconds) } }

    /// A category's part of all messages, 0 to 1.
    private func share(_ category: StoreStatistics.Category) -> Double? {
        guard let all = look.table("messages")?.rows, all > 0 else { return nil }
        return Self.rounded(min(1, Double(category.rows) / Double(all)), to: 1_000)
    }

    private static func oldest(_ handler: HandlerState) -> Double? {
        handler.oldestAge.map { max(0, Double($0.microseconds) / 1e6) }
    }

    private static func rounded(_ number: Double, to parts: Double = 100) -> Double {
        (number * parts).rounded() / parts
    }

    var json: JSONMembers {
        let perSecond = rates.map { rates -> [String: Double] in
            [
                "stored": rates.stored, "conflicts": rates.conflicts, "quarantined": rates.quarantined,
                "queued": rates.queued, "settled": rates.settled, "dead": rates.dead,
            ]
            .mapValues { Self.rounded($0) }
        }
        let partitions: JSONMembers = [
            "count": look.days.count, "first": look.days.first?.start.date, "last": look.days.last?.start.date,
            "ahead": look.daysAhead,
        ]
        let tables = tables.map { table -> JSONMembers in
            ["table": table.name, "rows_estimate": table.rows, "bytes": table.bytes]
        }
        let categories = look.categories.map { category -> JSONMembers in
            ["category": category.name, "rows_estimate": category.rows, "share_estimate": share(category)]
        }
        let handlers = look.handlers.map { handler -> JSONMembers in
            [
                "handler": handler.name, "paused": handler.isPaused, "waiting": handler.depth,
                "oldest_age_seconds": Self.oldest(handler), "dead_letters": handler.deadLetters,
            ]
        }
        return [
            "time": look.takenAt.rfc3339, "database_bytes": look.databaseBytes,
            "newest_message": look.newest?.rfc3339, "newest_message_age_seconds": newestAge,
            "rates_per_second": perSecond, "partitions": partitions, "tables": tables, "categories": categories,
            "handlers": handlers,
        ]
    }

    func lines(width: Int?) -> [String] {
        func count(_ number: Int) -> String { number >= 100_000 ? "100,000+" : Amount.count(number) }
        let tables = TextTable(
            ["TABLE", "ROWS", "SIZE"],
            tables.map { [$0.name, $0.rows.map { "~" + Amount.count($0) } ?? "-", Amount.bytes($0.bytes)] }
        )
        var lines = head.lines(width: width) + [""] + tables.lines(width: width)
        if !look.categories.isEmpty {
            let table = TextTable(
                [.init("CATEGORY", minimum: 20), "MESSAGES", "SHARE"],
                look.categories.map { category in
                    let share = share(category).map { Amount.decimal($0 * 100) + " %" } ?? "-"
                    return [category.name, "~" + Amount.count(category.rows), share]
                }
            )
            lines += [""] + table.lines(width: width)
        }
        if !look.handlers.isEmpty {
            let table = TextTable(
                [.init("HANDLER", minimum: 20), "WAITING", "OLDEST", "DEAD"],
                look.handlers.map { handler in
                    [
                        handler.name + (handler.isPaused ? " (paused)" : ""), count(handler.depth),
                        Self.oldest(handler).map(Amount.time) ?? "-", count(handler.deadLetters),
                    ]
                }
            )
            lines += [""] + table.lines(width: width)
        }
        return lines
    }

    private var head: FactList {
        let span = [look.days.first, look.days.last].compactMap { $0?.start.date }.joined(separator: " to ")
        var facts = FactList([
            ("time", look.takenAt.shown), ("database", Amount.bytes(look.databaseBytes)),
            ("partitions", "\(look.days.count): \(span), \(look.daysAhead) ahead"),
            ("newest message", newestAge.map { Amount.time($0) + " ago" } ?? "never"),
        ])
        guard let rates else { return facts }
        func line(_ parts: [(Double, String)]) -> String {
            parts.map { "\(Amount.decimal(Self.rounded($0)))/s \($1)" }.joined(separator: ", ")
        }
        facts.add(
            "received",
            line([(rates.stored, "new"), (rates.conflicts, "conflicts"), (rates.quarantined, "quarantined")])
        )
        facts.add("deliveries", line([(rates.queued, "queued"), (rates.settled, "ended"), (rates.dead, "dead")]))
        return facts
    }
}
