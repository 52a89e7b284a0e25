import Foundation
import Vocabulary

/// All results of a run of `bench`.
struct BenchReport: Codable, Sendable {
    /// One number of connections.
    struct Throughput: Codable, Sendable {
        var connections: Int
        var messages: Int
        var messagesPerSecond: Double
        var limitRowsPerSecond: Double
        var ratio: Double
        var ratioGoal: Double?
        var ackP50Milliseconds: Double
        var ackP99Milliseconds: Double
        var workerMicroseconds: Double
        var postgresMicroseconds: Double
        var emulatorMicroseconds: Double
        var limitLoopMicroseconds: Double
        var limitPostgresMicroseconds: Double
        var memoryMegabytes: Double
        var memoryPeakMegabytes: Double
        var batchMean: Double
        var batchMedian: Int
        var load: Double
    }

    struct Single: Codable, Sendable {
        var ackP50Milliseconds: Double
        var ackP99Milliseconds: Double
        var commitP50Milliseconds: Double
        var ratio: Double
    }

    struct Idle: Codable, Sendable {
        var connections: Int
        var memoryMegabytes: Double
        var kilobytesEach: Double
    }

    struct Stalled: Codable, Sendable {
        var seconds: Double
        var delivered: Int
        var memoryBeforeMegabytes: Double
        var memoryEarlyMegabytes: Double
        var memoryLateMegabytes: Double
        var recovered: Bool
    }

    struct Handlers: Codable, Sendable {
        var messages: Int
        var plainMessagesPerSecond: Double
        var handledMessagesPerSecond: Double
        var ratio: Double
        /// Deliveries still pending when the last message was acked.
        var deliveriesLeft: Int
        var backlog: Int
        var drainedPerSecond: Double
        /// `deliveries` with its indexes: full, empty, and vacuumed.
        var tableFullMegabytes: Double
        var tableEmptyMegabytes: Double
        var tableVacuumedMegabytes: Double
        var failingRate: Double
        var failingMessages: Int
        var plainP50Milliseconds: Double
        var plainP99Milliseconds: Double
        var failingP50Milliseconds: Double
        var failingP99Milliseconds: Double
        var load: Double
    }

    var throughput: [Throughput] = []
    var single: Single?
    var idle: Idle?
    var stalled: Stalled?
    var handlers: Handlers?
    /// Violated guarantees: messages lost or acked twice.
    var problems: [String] = []

    /// The ratio's goal for a number of connections, if it has one.
    static func ratioGoal(connections: Int) -> Double? {
        switch connections {
        case 1: 0.45
        case 10: 0.6
        default: nil
        }
    }

    /// Prints the figures with their goals.
    func show(_ console: Terminal) {
        var tables: [TextTable] = []
        if !throughput.isEmpty { tables.append(throughputTable) }
        let others = otherRows
        if !others.isEmpty { tables.append(TextTable(["MEASURE", "VALUE", "GOAL"], others)) }
        for (index, table) in tables.enumerated() {
            if index > 0 { console.data("") }
            console.table(table)
        }
    }

    private var throughputTable: TextTable {
        func row(_ name: String, goal: String = "", _ cell: (Throughput) -> String) -> [String] {
            [name] + throughput.map(cell) + [goal]
        }
        let goals = throughput.compactMap { run in
            run.ratioGoal.map { "≥ \(Self.text($0, 2)) at \(run.connections)" }
        }
        let titles = row("CONNECTIONS", goal: "GOAL") { "\($0.connections)" }
        let rows = [
            row("messages") { "\($0.messages)" },
            row("msg/s") { Self.text($0.messagesPerSecond, 0) },
            row("limit, rows/s") { Self.text($0.limitRowsPerSecond, 0) },
            row("ratio to the limit", goal: goals.joined(separator: ", ")) { Self.text($0.ratio, 3) },
            row("ack p50, ms") { Self.text($0.ackP50Milliseconds, 2) },
            row("ack p99, ms") { Self.text($0.ackP99Milliseconds, 2) },
            row("worker CPU, µs/msg", goal: "≤ 8") { Self.text($0.workerMicroseconds, 2) },
            row("PostgreSQL CPU, µs/msg") { Self.text($0.postgresMicroseconds, 2) },
            row("emulator CPU, µs/msg") { Self.text($0.emulatorMicroseconds, 2) },
            row("limit: loop CPU, µs/row") { Self.text($0.limitLoopMicroseconds, 2) },
            row("limit: PostgreSQL CPU, µs/row") { Self.text($0.limitPostgresMicroseconds, 2) },
            row("worker RSS, MB") { Self.text($0.memoryMegabytes, 1) },
            row("worker RSS at most, MB", goal: "≤ 60 at 10") { Self.text($0.memoryPeakMegabytes, 1) },
            row("batch: mean, median") { "\(Self.text($0.batchMean, 1)), \($0.batchMedian)" },
            row("load average") { Self.text($0.load, 2) },
        ]
        return TextTable(titles.map { TextTable.Column($0) }, rows)
    }

    private var otherRows: [[String]] {
        var rows: [[String]] = []
        if let single {
            rows.append(["one at a time: ack p50, ms", Self.text(single.ackP50Milliseconds, 3), ""])
            rows.append(["one at a time: ack p99, ms", Self.text(single.ackP99Milliseconds, 3), ""])
            rows.append(["one-row commit p50, ms", Self.text(single.commitP50Milliseconds, 3), ""])
            rows.append(["ack p50 to commit p50", Self.text(single.ratio, 2), "≤ 4"])
        }
        if let idle {
            rows.append(["RSS with \(idle.connections) idle connections, MB", Self.text(idle.memoryMegabytes, 1), ""])
            rows.append(["each further idle connection, KB", Self.text(idle.kilobytesEach, 1), "≤ 30"])
        }
        if let stalled {
            rows.append(["database locked for, s", Self.text(stalled.seconds, 1), ""])
            rows.append(["RSS before the lock, MB", Self.text(stalled.memoryBeforeMegabytes, 1), ""])
            rows.append(["RSS early in the lock, MB", Self.text(stalled.memoryEarlyMegabytes, 1), ""])
            rows.append(["RSS at the lock's end, MB", Self.text(stalled.memoryLateMegabytes, 1), "bounded"])
            rows.append(["everything acked afterwards", stalled.recovered ? "yes" : "NO", "yes"])
        }
        if let handlers { rows += Self.rows(handlers) }
        return rows
    }

    private static func rows(_ run: Handlers) -> [[String]] {
        let failing = "\(text(run.failingRate, 0)) msg/s"
        return [
            ["without handlers, msg/s", text(run.plainMessagesPerSecond, 0), ""],
            ["each message to the handler, msg/s", text(run.handledMessagesPerSecond, 0), ""],
            ["ratio of the two", text(run.ratio, 2), "≥ 0.8"],
            ["waiting at the last ack", "\(run.deliveriesLeft)", ""],
            ["backlog of \(run.backlog), deliveries/s", text(run.drainedPerSecond, 0), "≥ 10000"],
            ["deliveries with the backlog, MB", text(run.tableFullMegabytes, 1), ""],
            ["deliveries when drained, MB", text(run.tableEmptyMegabytes, 1), ""],
            ["deliveries when vacuumed, MB", text(run.tableVacuumedMegabytes, 1), "small"],
            ["\(failing), no handlers: ack p50, ms", text(run.plainP50Milliseconds, 2), ""],
            ["\(failing), no handlers: ack p99, ms", text(run.plainP99Milliseconds, 2), ""],
            ["\(failing), handler always fails: ack p50, ms", text(run.failingP50Milliseconds, 2), "the same"],
            ["\(failing), handler always fails: ack p99, ms", text(run.failingP99Milliseconds, 2), "the same"],
            ["load average", text(run.load, 2), ""],
        ]
    }

    /// Formats a number with this many decimals.
    static func text(_ number: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", number) }
}

extension Array where Element: Comparable {
    /// The element at a share (0...1) of the sorted array; nil if it is empty.
    package func quantile(_ share: Double) -> Element? {
        guard !isEmpty else { return nil }
        return sorted()[Swift.min(count - 1, Int(Double(count) * share))]
    }
}
