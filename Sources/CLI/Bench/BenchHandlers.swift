import CCSEmulator

/// Measures the handlers' cost to the receive path, delivery of a backlog, and the effect of a failing handler on acks.
struct BenchHandlers: Sendable {
    let plan: BenchPlan
    /// The measured handler's keys.
    let handler: String
    let site: BenchSite
    let console: Terminal

    private var everything: String { #"  - {name: everything, categories: ["*"], \#(handler)}"# }

    private func note(_ text: String) { console.message("bench: \(text)") }

    /// Runs all three; compared runs alternate, so that a change of the machine's speed affects both.
    func run(_ problems: inout [String]) async throws -> BenchReport.Handlers {
        let rounds = plan.isQuick ? 1 : 2
        var plain: [Double] = []
        var handled: [Double] = []
        var left = 0
        for round in 1...rounds {
            note("throughput without and with a handler, \(round) of \(rounds)")
            plain.append(try await throughput("", &problems).rate)
            let run = try await throughput(everything, &problems)
            handled.append(run.rate)
            left = max(left, run.left)
        }
        note("a backlog")
        let drain = try await drain()
        var calm = Latencies()
        var failing = Latencies()
        for round in 1...rounds {
            note("ack latency without handlers and with one that fails, \(round) of \(rounds)")
            calm.samples += try await latencies("", &problems)
            failing.samples += try await latencies(try failingHandler(), &problems)
        }
        let (plainRate, handledRate) = (plain.reduce(0, +), handled.reduce(0, +))
        return BenchReport.Handlers(
            messages: plan.messages,
            plainMessagesPerSecond: plainRate / Double(rounds),
            handledMessagesPerSecond: handledRate / Double(rounds),
            ratio: handledRate / plainRate,
            deliveriesLeft: left,
            backlog: backlog,
            drainedPerSecond: drain.rate,
            tableFullMegabytes: drain.full,
            tableEmptyMegabytes: drain.empty,
            tableVacuumedMegabytes: drain.vacuumed,
            failingRate: rate,
            failingMessages: latencyMessages,
            plainP50Milliseconds: calm.milliseconds(0.5),
            plainP99Milliseconds: calm.milliseconds(0.99),
            failingP50Milliseconds: failing.milliseconds(0.5),
            failingP99Milliseconds: failing.milliseconds(0.99),
            load: ProcessUsage.load
        )
    }

    private struct Latencies {
        var samples: [Double] = []

        func milliseconds(_ share: Double) -> Double { (samples.quantile(share) ?? 0) * 1000 }
    }

    // MARK: Throughput

    private func throughput(
        _ handlers: String,
        _ problems: inout [String]
    ) async throws -> (rate: Double, left: Int) {
        let count = plan.messages
        let (pair, database) = try await BenchPair.start(handlers, count: count, at: site, plan)
        let result = try await pair.stopping {
            try await pair.wait("the warm-up") { $0.tally.acked >= count / 5 }
            let before = (time: ContinuousClock.now, acked: await pair.emulator.tally().acked)
            try await pair.wait("every ack") { $0.isComplete }
            let seconds = (ContinuousClock.now - before.time) / .seconds(1)
            let left = try await BenchSite.waiting(database)
            // The rest must be delivered too before it counts as handled.
            while try await BenchSite.waiting(database) > 0 {
                try pair.worker.check()
                try await Task.sleep(for: .milliseconds(200))
            }
            return (rate: Double(count - before.acked) / seconds, left: left)
        }
        problems += pair.problems
        try await site.dropDatabase()
        return result
    }

    // MARK: Backlog

    private var backlog: Int { plan.isQuick ? 50_000 : 200_000 }

    private struct Drain {
        var rate: Double
        var full: Double
        var empty: Double
        var vacuumed: Double
    }

    private func drain() async throws -> Drain {
        let database = try await site.makeBacklog(backlog)
        let full = try await size(database)
        let worker = try site.startDispatcher(database: database, handlers: everything)
        defer { worker.stop() }
        var first: (left: Int, time: ContinuousClock.Instant)?
        var end = ContinuousClock.now
        while true {
            try worker.check()
            let left = try await BenchSite.waiting(database)
            end = .now
            if first == nil, left < backlog { first = (left, end) }
            if left == 0 { break }
            try await Task.sleep(for: .milliseconds(50))
        }
        let empty = try await size(database)
        worker.stop()
        try await BenchSite.run(database, BenchStatements.vacuum)
        let vacuumed = try await size(database)
        try await site.dropDatabase()
        let seconds = first.map { (end - $0.time) / .seconds(1) } ?? 0
        return Drain(
            rate: Double(first?.left ?? 0) / max(seconds, 0.001),
            full: full,
            empty: empty,
            vacuumed: vacuumed
        )
    }

    private func size(_ database: String) async throws -> Double {
        Double(try await BenchSite.numbers(database, BenchStatements.deliveriesSize).first ?? 0) / 1e6
    }

    // MARK: A failing handler

    private var latencyMessages: Int { plan.isQuick ? 5_000 : 20_000 }
    private let rate = 2_000.0

    /// A webhook that no server listens on: every attempt fails.
    private func failingHandler() throws -> String {
        let secret = try site.write("whsec_" + String(repeating: "QUJD", count: 10) + "\n", to: "webhook-secret")
        let url = "http://127.0.0.1:\(try FreePort.find())/"
        return """
              - name: failing
                categories: ["*"]
                webhook: {url: "\(url)", secret_file: \(secret), allow_networks: ["127.0.0.0/8"]}
            """
    }

    private func latencies(_ handlers: String, _ problems: inout [String]) async throws -> [Double] {
        let count = latencyMessages
        let (pair, database) = try await BenchPair.start(handlers, count: count, rate: rate, at: site, plan)
        let latencies = try await pair.stopping {
            try await pair.wait("the warm-up") { $0.tally.acked >= count / 10 }
            _ = try await pair.reading()
            try await pair.wait("every ack") { $0.isComplete }
            return try await pair.reading().latencies
        }
        if !handlers.isEmpty {
            let left = try await BenchSite.waiting(database)
            if left != count { problems.append("\(count - left) deliveries of a handler that always fails are gone") }
        }
        problems += pair.problems
        try await site.dropDatabase()
        return latencies
    }
}
