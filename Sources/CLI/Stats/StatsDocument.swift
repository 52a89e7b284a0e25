import MessageStore
import Telemetry
import Vocabulary

/// What `stats` shows, for people and programs.
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

    /// The figures of one look, with the rates since the one before.
    init(_ look: StoreStatistics, _ rates: StoreRates?) {
        time = Timestamp(microseconds: look.takenAt).rfc3339
        databaseBytes = look.databaseBytes
        newestMessage = look.newest.map { Timestamp(microseconds: $0).rfc3339 }
        newestMessageAgeSeconds = look.newest.map { max(0, Double(look.takenAt - $0) / 1e6) }
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
            first: look.days.first.map(PartitionsCommand.date),
            last: look.days.last.map(PartitionsCommand.date),
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
                oldestAgeSeconds: handler.oldestAge.map { max(0, Double($0) / 1e6) },
                deadLetters: handler.deadLetters
            )
        }
    }

    /// The text's lines.
    var lines: [String] {
        (head + [""] + tableLines + categoryLines + handlerLines).flatMap {
            $0.split(separator: "\n", omittingEmptySubsequences: false)
        }
        .map(String.init)
    }

    private var head: [String] {
        let newest = newestMessageAgeSeconds.map { Amount.time($0) + " ago" } ?? "never"
        let span = [partitions.first, partitions.last].compactMap(\.self).joined(separator: " to ")
        var rows = [
            ["time", time],
            ["database", Amount.bytes(databaseBytes)],
            ["partitions", "\(partitions.count): \(span), \(partitions.ahead) ahead"],
            ["newest message", newest],
        ]
        if let rates = ratesPerSecond {
            func rate(_ number: Double, _ what: String) -> String { "\(Amount.decimal(number))/s \(what)" }
            rows.append([
                "received",
                [rate(rates.stored, "new"), rate(rates.conflicts, "conflicts"), rate(rates.quarantined, "quarantined")]
                    .joined(separator: ", "),
            ])
            rows.append([
                "deliveries",
                [rate(rates.queued, "queued"), rate(rates.settled, "ended"), rate(rates.dead, "dead")]
                    .joined(separator: ", "),
            ])
        }
        return [Console.table(rows)]
    }

    private var tableLines: [String] {
        let cells = tables.map {
            [$0.table, $0.rowsEstimate.map { "~" + Amount.count($0) } ?? "-", Amount.bytes($0.bytes)]
        }
        return [Console.table([["TABLE", "ROWS", "SIZE"]] + cells)]
    }

    private var categoryLines: [String] {
        guard !categories.isEmpty else { return [] }
        let cells = categories.map {
            [
                $0.category, "~" + Amount.count($0.rowsEstimate),
                $0.shareEstimate.map { Amount.decimal($0 * 100) + " %" } ?? "-",
            ]
        }
        return ["", Console.table([["CATEGORY", "MESSAGES", "SHARE"]] + cells)]
    }

    private var handlerLines: [String] {
        guard !handlers.isEmpty else { return [] }
        let cells = handlers.map { handler in
            [
                handler.handler + (handler.paused ? " (paused)" : ""),
                handler.waiting >= 100_000 ? "100,000+" : Amount.count(Int64(handler.waiting)),
                handler.oldestAgeSeconds.map(Amount.time) ?? "-",
                handler.deadLetters >= 100_000 ? "100,000+" : Amount.count(Int64(handler.deadLetters)),
            ]
        }
        return ["", Console.table([["HANDLER", "WAITING", "OLDEST", "DEAD"]] + cells)]
    }
}
