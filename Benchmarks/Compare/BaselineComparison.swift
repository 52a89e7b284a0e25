import CCSEmulator
import CLI
import Foundation
import Vocabulary

/// Runs our worker and the bare C worker (`Benchmarks/Baseline`) alternately, to show what the guarantees cost.
///
/// Only ratios mean something; both sides of one come from the same minutes and the same PostgreSQL server.
struct BaselineComparison {
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
    let console: Terminal
    let repeats: Int
    /// The bare worker.
    let program: URL
    /// Messages per second of the paced run; 0 for none.
    let paced: Int

    /// Measures everything the plan asks for.
    func run(_ problems: inout [String]) async throws -> [Comparison] {
        var result: [Comparison] = []
        for connections in plan.counts {
            let count = plan.messages(connections: connections)
            result.append(try await compare(connections: connections, count: count, rate: nil, &problems))
        }
        if paced > 0 {
            let count = max(paced * (plan.isQuick ? 5 : 15), 100)
            result.append(try await compare(connections: 1, count: count, rate: Double(paced), &problems))
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
        for turn in 1...repeats {
            let speed = rate.map { "\(Int($0)) msg/s" } ?? "full speed"
            console.message("compare: ours and the bare worker, connections: \(connections), \(speed), turn \(turn)")
            bare.append(try await measure(connections, count, rate, isBare: true, &problems))
            ours.append(try await measure(connections, count, rate, isBare: false, &problems))
        }
        return Comparison(connections: connections, rate: rate, ours: Self.median(ours), bare: Self.median(bare))
    }

    private func measure(
        _ connections: Int,
        _ count: Int,
        _ rate: Double?,
        isBare: Bool,
        _ problems: inout [String]
    ) async throws -> Run {
        let database = try await site.makeDatabase()
        var settings = plan.load(count: count, connections: connections, sampling: rate == nil ? 7 : 1)
        settings.load.rate = rate
        let pair = try await pair(settings, database, isBare: isBare)
        var run = try await pair.stopping {
            try await pair.wait("the warm-up") { $0.tally.acked >= count / 5 }
            let (before, slept) = (try await pair.reading(), sleeps(pair.worker.id))
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
                sleeps: Double(sleeps(pair.worker.id) - slept) / messages
            )
        }
        problems += pair.problems
        let batches =
            isBare
            ? try await BenchSite.numbers(database, CompareStatements.bareBatchSizes)
            : try await BenchSite.batchSizes(database)
        run.batchMean = Double(count) / Double(max(1, batches.count))
        try await site.dropDatabase()
        return run
    }

    private func pair(_ settings: EmulatorConfiguration, _ database: String, isBare: Bool) async throws -> BenchPair {
        guard isBare else { return try await BenchPair(settings, database, at: site, plan) }
        return try await BenchPair(settings, at: site) { emulator in
            let (secret, authority) = try site.credentials(emulator)
            // It creates its own table.
            let arguments = [
                "127.0.0.1", "\(emulator.port)", "gcm.googleapis.com", BenchSite.senderID, secret, authority, database,
                "\(settings.load.connections)", "\(plan.writers)",
            ]
            return try site.start(program, arguments, log: "baseline.log")
        }
    }

    /// Voluntary context switches of a process's threads: how often they went to sleep.
    ///
    /// Ended threads don't count.
    private func sleeps(_ id: Int32) -> Int {
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(id)/task")) ?? []
        return threads.reduce(0) { sum, thread in
            let text = (try? String(contentsOfFile: "/proc/\(id)/task/\(thread)/status", encoding: .utf8)) ?? ""
            let line = text.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches:") }
            return sum + (line.flatMap { Int($0.split(separator: "\t").last ?? "") } ?? 0)
        }
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
                    "\(name): \(what)", text(ours, digits), text(bare, digits), text(ours / bare, 2), goal,
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
