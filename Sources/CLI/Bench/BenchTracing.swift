import CCSEmulator
import Foundation
import LocalDatabase
import Worker

/// What tracing costs: received messages with a handler, without it, with one message in a hundred recorded, and with all.
struct BenchTracing: Sendable {
    /// The figures of one ratio.
    struct Figures: Codable, Sendable {
        /// `tracing.sample_ratio`; nil where tracing is off.
        var sampleRatio: Double?
        var perSecond: Double
        /// The median of the ratios to the run without that was before it.
        var ratio: Double
        /// Processor time of the worker for each message.
        var workerMicroseconds: Double
        /// What was exported for each message, in bytes.
        var bytes: Double
    }

    /// All, and the machine's load at the end.
    struct Report: Codable, Sendable {
        var runs: [Figures]
        var load: Double
    }

    let plan: BenchPlan
    let site: BenchSite
    let console: Console

    private static let connections = 10
    private static let handler = #"  - {name: everything, categories: ["*"], concurrency: 8, log: {}}"#
    private static let ratios: [Double?] = [nil, 0.01, 1]

    private struct Run {
        var rate: Double
        var worker: Double
        var bytes: Double
    }

    /// Runs all in turns, so that a change of the machine's speed affects each.
    func run(_ problems: inout [String]) async throws -> Report {
        let rounds = max(plan.repeats, plan.isQuick ? 1 : 3)
        var runs: [[Run]] = Self.ratios.map { _ in [] }
        for round in 1...rounds {
            for (index, ratio) in Self.ratios.enumerated() {
                let what = ratio.map { "with \($0)" } ?? "without"
                console.message("bench: tracing, \(what), \(round) of \(rounds)")
                runs[index].append(try await received(ratio, &problems))
            }
        }
        let figures = Self.ratios.indices.map { index in
            func median(_ value: (Run) -> Double) -> Double { runs[index].map(value).quantile(0.5) ?? 0 }
            return Figures(
                sampleRatio: Self.ratios[index],
                perSecond: median(\.rate),
                ratio: zip(runs[index], runs[0]).map { $0.rate / $1.rate }.quantile(0.5) ?? 0,
                workerMicroseconds: median(\.worker),
                bytes: median(\.bytes)
            )
        }
        return Report(runs: figures, load: ProcessUsage.load)
    }

    private func received(_ ratio: Double?, _ problems: inout [String]) async throws -> Run {
        let collector = try await BenchCollector.start()
        let database = try await site.makeDatabase("bench")
        let count = plan.messages
        let settings = BenchLoad.emulator(
            count: count,
            connections: Self.connections,
            size: plan.size,
            window: plan.window,
            sampling: nil
        )
        // A key of the configuration's first level after the list of handlers.
        let tracing = ratio.map { "\ntracing: {endpoint: '\(collector.endpoint)', sample_ratio: \($0)}" } ?? ""
        let pair = try await BenchPair(
            site,
            settings,
            database: database,
            connections: Self.connections,
            handlers: Self.handler + tracing,
            plan
        )
        let run = try await pair.stopping {
            try await pair.wait("the warm-up") { $0.tally.acked >= count / 5 }
            let before = try await pair.reading()
            try await pair.wait("every ack") { $0.isComplete }
            while try await BenchSite.numbers(database, BenchStatements.waiting).first ?? 0 > 0 {
                try pair.worker.check()
                try await Task.sleep(for: .milliseconds(20))
            }
            let after = try await pair.reading()
            let handled = Double(count - before.acked)
            return Run(
                rate: handled / (before.time.duration(to: after.time) / .seconds(1)),
                worker: (after.worker - before.worker) / handled * 1e6,
                bytes: 0
            )
        }
        problems += pair.problems
        await collector.stop()
        try await site.dropDatabase("bench")
        return Run(rate: run.rate, worker: run.worker, bytes: Double(collector.bytes) / Double(count))
    }
}

extension BenchTracing.Report {
    /// The rows of the table, with their goals.
    var table: [[String]] {
        runs.flatMap { figures in
            let name = figures.sampleRatio.map { "tracing, sample_ratio \($0)" } ?? "tracing off"
            return [
                ["\(name): messages a second", text(figures.perSecond, 0), ""],
                ["\(name): to off", text(figures.ratio, 2), ""],
                ["\(name): worker, µs each", text(figures.workerMicroseconds, 1), ""],
                ["\(name): exported, bytes each", text(figures.bytes, 0), ""],
            ]
        }
    }

    private func text(_ number: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", number) }
}
