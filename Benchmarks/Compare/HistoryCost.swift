import CLI

/// Measures the cost of the history of attempts: the same work with the default `retention.attempts` and with 0, in
/// turns.
struct HistoryCost: Sendable {
    /// The figures of one kind of delivery.
    struct Figures: Codable, Sendable {
        var perSecondWithout: Double
        var perSecondWith: Double
        /// The median ratio of consecutive runs.
        var ratio: Double
        /// PostgreSQL's CPU time per delivery.
        var postgresMicrosecondsWithout: Double
        var postgresMicrosecondsWith: Double
        /// The worker's CPU time per delivery.
        var workerMicrosecondsWithout: Double
        var workerMicrosecondsWith: Double
        /// Disk space per attempt, including its share of indexes.
        var bytesPerAttempt: Double
    }

    /// Both kinds, and the machine's load at the end.
    struct Report: Codable, Sendable {
        /// Deliveries in blocks, as they are received.
        var blocks: Figures
        /// Deliveries in rows, from a backlog.
        var rows: Figures
        var load: Double
    }

    let plan: BenchPlan
    let site: BenchSite
    let console: Terminal
    let repeats: Int

    private static let handler = DeliveryRun.handler
    /// A top-level key after the list of handlers.
    private static let off = "\nretention: {attempts: 0s}"

    private struct Run {
        var figures: DeliveryRun.Figures
        var bytes: Double
    }

    /// Runs everything; compared runs alternate, so that a change of the machine's speed affects both.
    func run(_ problems: inout [String]) async throws -> Report {
        let rounds = max(repeats, plan.isQuick ? 1 : 3)
        var (blocks, rows): ([(Run, Run)], [(Run, Run)]) = ([], [])
        for round in 1...rounds {
            console.message("compare: received deliveries without and with history, \(round) of \(rounds)")
            let off = try await received(Self.handler + Self.off, &problems)
            blocks.append((off, try await received(Self.handler, &problems)))
            console.message("compare: a backlog without and with history, \(round) of \(rounds)")
            let without = try await drained(Self.handler + Self.off)
            rows.append((without, try await drained(Self.handler)))
        }
        return Report(blocks: Self.figures(blocks), rows: Self.figures(rows), load: ProcessUsage.load)
    }

    private static func figures(_ runs: [(off: Run, on: Run)]) -> Figures {
        func median(_ value: ((off: Run, on: Run)) -> Double) -> Double { runs.map(value).quantile(0.5) ?? 0 }
        return Figures(
            perSecondWithout: median(\.off.figures.rate),
            perSecondWith: median(\.on.figures.rate),
            ratio: median { $0.on.figures.rate / $0.off.figures.rate },
            postgresMicrosecondsWithout: median(\.off.figures.postgres),
            postgresMicrosecondsWith: median(\.on.figures.postgres),
            workerMicrosecondsWithout: median(\.off.figures.worker),
            workerMicrosecondsWith: median(\.on.figures.worker),
            bytesPerAttempt: median(\.on.bytes)
        )
    }

    private func received(_ handlers: String, _ problems: inout [String]) async throws -> Run {
        let delivery = DeliveryRun(plan: plan, site: site)
        let (figures, kept) = try await delivery.run(handlers, &problems) { try await bytes($0, plan.messages) }
        return Run(figures: figures, bytes: kept)
    }

    /// Measures messages that wait in the table when the worker starts.
    private func drained(_ handlers: String) async throws -> Run {
        let backlog = plan.isQuick ? 50_000 : 200_000
        let database = try await site.makeBacklog(backlog)
        let worker = try site.startDispatcher(database: database, handlers: handlers)
        defer { worker.stop() }
        var first: (left: Int, time: ContinuousClock.Instant, postgres: Double, worker: Double)?
        while true {
            try worker.check()
            let left = try await BenchSite.waiting(database)
            if first == nil, left < backlog {
                first = (left, .now, ProcessUsage.cpu(ofFamily: site.postgres), ProcessUsage.cpu(of: worker.id))
            }
            if left == 0 { break }
            try await Task.sleep(for: .milliseconds(20))
        }
        let (end, postgres) = (ContinuousClock.now, ProcessUsage.cpu(ofFamily: site.postgres))
        let used = ProcessUsage.cpu(of: worker.id)
        let bytes = try await bytes(database, backlog)
        worker.stop()
        try await site.dropDatabase()
        guard let first else { return Run(figures: .init(rate: 0, postgres: 0, worker: 0), bytes: bytes) }
        let seconds = max(first.time.duration(to: end) / .seconds(1), 0.001)
        let count = Double(max(first.left, 1))
        let figures = DeliveryRun.Figures(
            rate: count / seconds,
            postgres: (postgres - first.postgres) / count * 1e6,
            worker: (used - first.worker) / count * 1e6
        )
        return Run(figures: figures, bytes: bytes)
    }

    private func bytes(_ database: String, _ attempts: Int) async throws -> Double {
        Double(try await BenchSite.numbers(database, CompareStatements.historySize).first ?? 0) / Double(attempts)
    }
}

extension HistoryCost.Report {
    /// The rows of the table, with their goals.
    var table: [[String]] {
        [("in blocks", blocks), ("in rows", rows)].flatMap { name, figures in
            [
                ["deliveries \(name) without history, /s", text(figures.perSecondWithout, 0), ""],
                ["deliveries \(name) with history, /s", text(figures.perSecondWith, 0), ""],
                ["ratio of the two", text(figures.ratio, 2), "≥ 0.9"],
                ["PostgreSQL without, µs each", text(figures.postgresMicrosecondsWithout, 1), ""],
                ["PostgreSQL with, µs each", text(figures.postgresMicrosecondsWith, 1), ""],
                ["worker without, µs each", text(figures.workerMicrosecondsWithout, 1), ""],
                ["worker with, µs each", text(figures.workerMicrosecondsWith, 1), ""],
                ["disk, bytes an attempt", text(figures.bytesPerAttempt, 1), ""],
            ]
        }
    }
}
