import CLI

/// Measures the cost of tracing: received messages with a handler, with tracing off, for one message in a hundred, and
/// for all.
struct TracingCost: Sendable {
    /// The figures of one ratio.
    struct Figures: Codable, Sendable {
        /// `tracing.sample_ratio`; nil if tracing is off.
        var sampleRatio: Double?
        var perSecond: Double
        /// The median ratio to the preceding run without tracing.
        var ratio: Double
        /// The worker's CPU time per message.
        var workerMicroseconds: Double
        /// Bytes exported per message.
        var bytes: Double
    }

    /// All figures, and the machine's load at the end.
    struct Report: Codable, Sendable {
        var runs: [Figures]
        var load: Double
    }

    let plan: BenchPlan
    let site: BenchSite
    let console: Terminal
    let repeats: Int

    private static let ratios: [Double?] = [nil, 0.01, 1]

    private struct Run {
        var figures: DeliveryRun.Figures
        var bytes: Double
    }

    /// Runs all in turns, so that a change of the machine's speed affects each.
    func run(_ problems: inout [String]) async throws -> Report {
        let rounds = max(repeats, plan.isQuick ? 1 : 3)
        var runs: [[Run]] = Self.ratios.map { _ in [] }
        for round in 1...rounds {
            for (index, ratio) in Self.ratios.enumerated() {
                let what = ratio.map { "with \($0)" } ?? "without"
                console.message("compare: tracing, \(what), \(round) of \(rounds)")
                runs[index].append(try await received(ratio, &problems))
            }
        }
        let figures = Self.ratios.indices.map { index in
            func median(_ value: (Run) -> Double) -> Double { runs[index].map(value).quantile(0.5) ?? 0 }
            return Figures(
                sampleRatio: Self.ratios[index],
                perSecond: median(\.figures.rate),
                ratio: zip(runs[index], runs[0]).map { $0.figures.rate / $1.figures.rate }.quantile(0.5) ?? 0,
                workerMicroseconds: median(\.figures.worker),
                bytes: median(\.bytes)
            )
        }
        return Report(runs: figures, load: ProcessUsage.load)
    }

    private func received(_ ratio: Double?, _ problems: inout [String]) async throws -> Run {
        let collector = try await Collector.start()
        // A top-level key after the list of handlers.
        let tracing = ratio.map { "\ntracing: {endpoint: '\(collector.endpoint)', sample_ratio: \($0)}" } ?? ""
        let delivery = DeliveryRun(plan: plan, site: site)
        let (figures, _) = try await delivery.run(DeliveryRun.handler + tracing, &problems) { _ in }
        await collector.stop()
        return Run(figures: figures, bytes: Double(collector.bytes) / Double(plan.messages))
    }
}

extension TracingCost.Report {
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
}
