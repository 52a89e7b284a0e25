import ArgumentParser
import MessageStore
import Vocabulary

/// `stats`: an overview of the store.
struct StatsCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Shows rates, sizes, lag, top categories, partitions and queues.",
        discussion: """
            Examples:
              upstream-worker stats
              upstream-worker stats --watch
              upstream-worker stats --watch 10s --json

            No messages are read: counts marked with ~ are estimates from PostgreSQL's catalog, categories are what \
            ANALYZE sampled, rates are the change of PostgreSQL's counters between two readings. Sizes and times are \
            exact. The database does not record duplicates: /metrics counts them.
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Repeat until Ctrl-C.")
    var watch = false
    @Argument(help: "The time over which rates are measured, and between two updates. Default: 2s.")
    var interval: DurationArgument?
    @Option(help: "How many categories to show.")
    var categories = 10
    @Flag(help: "One JSON object per line instead of text.")
    var json = false

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
                if json {
                    try console.json(StatsDocument(now, rates))
                } else {
                    block.show(StatsDocument(now, rates).lines(width: console.width))
                }
                before = now
            } while watch
        }
    }
}

/// The output of `stats`, as text or JSON.
struct StatsDocument: Encodable {
    struct Rates: Encodable {
        var stored: Double
        var conflicts: Double
        var quarantined: Double
        var queued: Double
        var settled: Double
        var dead: Double
    }

    struct Table: Encodable {
        var table: String
        var rowsEstimate: Int64?
        var bytes: Int64
    }

    struct Partitions: Encodable {
        var count: Int
        var first: String?
        var last: String?
        var ahead: Int
    }

    struct Category: Encodable {
        var category: String
        var rowsEstimate: Int64
        var shareEstimate: Double?
    }

    struct Queue: Encodable {
        var handler: String
        var paused: Bool
        var waiting: Int
        var oldestAgeSeconds: Double?
        var deadLetters: Int
    }

    var time: String
    var databaseBytes: Int64
    var newestMessage: String?
    var newestMessageAgeSeconds: Double?
    var ratesPerSecond: Rates?
    var partitions: Partitions
    var tables: [Table]
    var categories: [Category]
    var handlers: [Queue]

    /// One snapshot's figures, with the rates since the previous one.
    init(_ look: StoreStatistics, _ rates: StoreRates?) {
        time = ShownTime.full(look.takenAt)
        databaseBytes = look.databaseBytes
        newestMessage = look.newest.map(ShownTime.full)
        newestMessageAgeSeconds = look.newest.map { max(0, (look.takenAt - $0).inSeconds) }
        ratesPerSecond = rates.map {
            func rounded(_ rate: Double) -> Double { (rate * 100).rounded() / 100 }
            return Rates(
                stored: rounded($0.stored),
                conflicts: rounded($0.conflicts),
                quarantined: rounded($0.quarantined),
                queued: rounded($0.queued),
                settled: rounded($0.settled),
                dead: rounded($0.dead)
            )
        }
        partitions = Partitions(
            count: look.days.count,
            first: look.days.first.map(ShownTime.date),
            last: look.days.last.map(ShownTime.date),
            ahead: look.daysAhead
        )
        tables = look.tables.map { Table(table: $0.name, rowsEstimate: $0.rows, bytes: $0.bytes) }
            .sorted { ($1.bytes, $0.table) < ($0.bytes, $1.table) }
        let all = look.table("messages")?.rows ?? 0
        categories = look.categories.map { category in
            let share = all > 0 ? min(1, Double(category.rows) / Double(all)) : nil
            return Category(
                category: category.name,
                rowsEstimate: category.rows,
                shareEstimate: share.map { ($0 * 1000).rounded() / 1000 }
            )
        }
        handlers = look.handlers.map { handler in
            Queue(
                handler: handler.name,
                paused: handler.isPaused,
                waiting: handler.depth,
                oldestAgeSeconds: handler.oldestAge.map { max(0, Double($0.microseconds) / 1e6) },
                deadLetters: handler.deadLetters
            )
        }
    }

    func lines(width: Int?) -> [String] {
        var lines = head.lines(width: width) + [""] + tableOfTables.lines(width: width)
        if !categories.isEmpty { lines += [""] + tableOfCategories.lines(width: width) }
        if !handlers.isEmpty { lines += [""] + tableOfHandlers.lines(width: width) }
        return lines
    }

    private var head: FactList {
        let span = [partitions.first, partitions.last].compactMap(\.self).joined(separator: " to ")
        var facts = FactList()
        facts.add("time", ShownTime.short(time))
        facts.add("database", Amount.bytes(databaseBytes))
        facts.add("partitions", "\(partitions.count): \(span), \(partitions.ahead) ahead")
        facts.add("newest message", newestMessageAgeSeconds.map { Amount.time($0) + " ago" } ?? "never")
        if let rates = ratesPerSecond {
            func line(_ parts: [(Double, String)]) -> String {
                parts.map { "\(Amount.decimal($0))/s \($1)" }.joined(separator: ", ")
            }
            facts.add(
                "received",
                line([(rates.stored, "new"), (rates.conflicts, "conflicts"), (rates.quarantined, "quarantined")])
            )
            facts.add("deliveries", line([(rates.queued, "queued"), (rates.settled, "ended"), (rates.dead, "dead")]))
        }
        return facts
    }

    private var tableOfTables: TextTable {
        TextTable(
            ["TABLE", "ROWS", "SIZE"],
            tables.map { [$0.table, $0.rowsEstimate.map { "~" + Amount.count($0) } ?? "-", Amount.bytes($0.bytes)] }
        )
    }

    private var tableOfCategories: TextTable {
        TextTable(
            [.init("CATEGORY", minimum: 20), "MESSAGES", "SHARE"],
            categories.map {
                [
                    $0.category, "~" + Amount.count($0.rowsEstimate),
                    $0.shareEstimate.map { Amount.decimal($0 * 100) + " %" } ?? "-",
                ]
            }
        )
    }

    private var tableOfHandlers: TextTable {
        func count(_ number: Int) -> String { number >= 100_000 ? "100,000+" : Amount.count(Int64(number)) }
        return TextTable(
            [.init("HANDLER", minimum: 20), "WAITING", "OLDEST", "DEAD"],
            handlers.map {
                [
                    $0.handler + ($0.paused ? " (paused)" : ""), count($0.waiting),
                    $0.oldestAgeSeconds.map(Amount.time) ?? "-", count($0.deadLetters),
                ]
            }
        )
    }
}
