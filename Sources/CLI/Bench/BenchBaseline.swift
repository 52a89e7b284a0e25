import CCSEmulator
import Foundation
import Resources
import Vocabulary

/// Runs our worker and the bare C worker (`Benchmarks/Baseline`) alternately, to show what the guarantees cost.
///
/// Only ratios mean something; both sides of one come from the same minutes and the same PostgreSQL server.
struct BenchBaseline {
    struct Run: Codable, Sendable {
        var messagesPerSecond: Double
        var workerMicroseconds: Double
        var postgresMicroseconds: Double
        var ackP50Milliseconds: Double
        var memoryMegabytes: Double
        /// The mean number of rows per commit.
        var batchMean: Double
        /// Voluntary context switches of the worker's threads per message: each is a wake-up.
        var sleeps: Double
    }

    /// The medians of both workers for one number of connections and one rate.
    struct Comparison: Codable, Sendable {
        var connections: Int
        /// Messages sent per second; nil for as fast as possible.
        var rate: Double?
        var ours: Run
        var bare: Run
    }

    let plan: BenchPlan
    let site: BenchSite
    let program: String
    let console: Terminal

    /// Measures everything the plan asks for.
    func run(_ problems: inout [String]) async throws -> [Comparison] {
        var result: [Comparison] = []
        for connections in plan.connections {
            let count = plan.messages(connections: connections)
            result.append(try await compare(connections: connections, count: count, rate: nil, &problems))
        }
        if plan.paced > 0 {
            let count = max(plan.paced * (plan.isQuick ? 5 : 15), 100)
            result.append(try await compare(connections: 1, count: count, rate: Double(plan.paced), &problems))
        }
        return result
    }

    private func compare(
        connections: Int,
        count: Int,
        rate: Double?,
        _ problems: inout [String]
    ) async throws -> Comparison {
        var ours: [Run] = []
        var bare: [Run] = []
        for turn in 1...plan.repeats {
            let speed = rate.map { "\(Int($0)) msg/s" } ?? "full speed"
            console.message("bench: ours and the bare worker, connections: \(connections), \(speed), turn \(turn)")
            bare.append(try await measure(connections, count, rate, baseline: program, &problems))
            ours.append(try await measure(connections, count, rate, baseline: nil, &problems))
        }
        return Comparison(connections: connections, rate: rate, ours: Self.median(ours), bare: Self.median(bare))
    }

    private func measure(
        _ connections: Int,
        _ count: Int,
        _ rate: Double?,
        baseline: String?,
        _ problems: inout [String]
    ) async throws -> Run {
        let database = try await site.makeDatabase("bench")
        var settings = BenchLoad.emulator(
            count: count,
            connections: connections,
            size: plan.size,
            window: plan.window,
            sampling: rate == nil ? 7 : 1
        )
        settings.load.rate = rate
        let pair = try await BenchPair(
            site,
            settings,
            database: database,
            connections: connections,
            baseline: baseline,
            plan
        )
        var run = try await pair.stopping {
            try await pair.wait("the warm-up") { $0.tally.acked >= count / 5 }
            let before = try await pair.reading()
            try await pair.wait("every ack") { $0.isComplete }
            let after = try await pair.reading()
            let messages = Double(after.acked - before.acked)
            return Run(
                messagesPerSecond: messages / ((after.time - before.time) / .seconds(1)),
                workerMicroseconds: (after.worker - before.worker) / messages * 1e6,
                postgresMicroseconds: (after.postgres - before.postgres) / messages * 1e6,
                ackP50Milliseconds: (after.latencies.quantile(0.5) ?? 0) * 1000,
                memoryMegabytes: Double(ProcessUsage.memory(pair.worker.id).now) / 1e6,
                batchMean: 0,
                sleeps: Double(after.sleeps - before.sleeps) / messages
            )
        }
        problems += pair.problems
        let sizes = baseline == nil ? BenchStatements.batchSizes : BenchStatements.bareBatchSizes
        run.batchMean = try await Double(count) / Double(max(1, BenchSite.numbers(database, sizes).count))
        try await site.dropDatabase("bench")
        return run
    }

    private static func median(_ runs: [Run]) -> Run {
        func of(_ figure: (Run) -> Double) -> Double { runs.map(figure).quantile(0.5) ?? 0 }
        return Run(
            messagesPerSecond: of(\.messagesPerSecond),
            workerMicroseconds: of(\.workerMicroseconds),
            postgresMicroseconds: of(\.postgresMicroseconds),
            ackP50Milliseconds: of(\.ackP50Milliseconds),
            memoryMegabytes: of(\.memoryMegabytes),
            batchMean: of(\.batchMean),
            sleeps: of(\.sleeps)
        )
    }

    /// The table of both workers' figures and their ratios.
    static func table(_ comparisons: [Comparison]) -> TextTable {
        var table = TextTable(["BESIDE THE BARE WORKER", "OURS", "BARE", "RATIO", "GOAL"])
        for comparison in comparisons {
            let name =
                comparison.rate.map { "\(Int($0)) msg/s" }
                ?? "\(comparison.connections) connection" + (comparison.connections == 1 ? "" : "s")
            func row(_ what: String, _ figure: (Run) -> Double, digits: Int, goal: String = "") {
                let (ours, bare) = (figure(comparison.ours), figure(comparison.bare))
                table.append([
                    "\(name): \(what)", String(format: "%.\(digits)f", ours), String(format: "%.\(digits)f", bare),
                    String(format: "%.2f", ours / bare), goal,
                ])
            }
            if comparison.rate != nil {
                row("ack p50, ms", \.ackP50Milliseconds, digits: 2, goal: "≤ 1.2")
                row("wake-ups in the worker/msg", \.sleeps, digits: 2)
                continue
            }
            let goal = [1: "≥ 0.85", 10: "≥ 0.95"][comparison.connections] ?? ""
            row("msg/s", \.messagesPerSecond, digits: 0, goal: goal)
            row("worker CPU, µs/msg", \.workerMicroseconds, digits: 2, goal: "≤ 1.4")
            row("PostgreSQL CPU, µs/msg", \.postgresMicroseconds, digits: 2, goal: "≤ 1.05")
            row("rows in a commit", \.batchMean, digits: 1)
            row("wake-ups in the worker/msg", \.sleeps, digits: 3)
            row("ack p50, ms", \.ackP50Milliseconds, digits: 2)
            row("worker RSS, MB", \.memoryMegabytes, digits: 1, goal: comparison.connections == 10 ? "≤ 45 MB" : "")
        }
        return table
    }
}
