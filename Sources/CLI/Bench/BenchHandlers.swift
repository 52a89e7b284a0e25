import CCSEmulator

/// Measures the handlers' cost to the receive path, delivery of a backlog, and the effect of a failing handler on acks.
struct BenchHandlers: Sendable {
    let plan: BenchPlan
    let handler: String
    let site: BenchSite
    let console: Terminal

    private var everything: String { #"  - {name: everything, categories: ["*"], \#(handler)}"# }

    private func note(_ text: String) { console.message("bench: \(text)") }

    /// Runs all three; compared runs alternate, so that a change of the machine's speed affects both.
    func run(_ problems: inout [String]) async throws -> [BenchFigure] {
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
        var calm: [Double] = []
        var failing: [Double] = []
        for round in 1...rounds {
            note("ack latency without handlers and with one that fails, \(round) of \(rounds)")
            calm += try await latencies("", &problems)
            failing += try await latencies(try failingHandler(), &problems)
        }
        let (plainRate, handledRate) = (plain.reduce(0, +), handled.reduce(0, +))
        let load = "\(BenchFigure.text(rate, 0)) msg/s"
        let (without, with) = ("\(load), no handlers: ack", "\(load), handler always fails: ack")
        let handledEach = "each message to the handler, msg/s"
        let drained = "backlog of \(backlog), deliveries/s"
        return [
            BenchFigure("messages", nil, plan.messages),
            BenchFigure("plain_messages_per_second", "without handlers, msg/s", plainRate / Double(rounds), 0),
            BenchFigure("handled_messages_per_second", handledEach, handledRate / Double(rounds), 0),
            BenchFigure("ratio", "ratio of the two", handledRate / plainRate, 2, goal: "≥ 0.8"),
            BenchFigure("deliveries_left", "waiting at the last ack", left),
            BenchFigure("backlog", nil, backlog),
            BenchFigure("drained_per_second", drained, drain.rate, 0, goal: "≥ 10000"),
            // `deliveries` with its indexes.
            BenchFigure("table_full_megabytes", "deliveries with the backlog, MB", drain.full, 1),
            BenchFigure("table_empty_megabytes", "deliveries when drained, MB", drain.empty, 1),
            BenchFigure("table_vacuumed_megabytes", "deliveries when vacuumed, MB", drain.vacuumed, 1, goal: "small"),
            BenchFigure("failing_rate", nil, rate),
            BenchFigure("failing_messages", nil, latencyMessages),
            BenchFigure("plain_p50_milliseconds", "\(without) p50, ms", calm.milliseconds(0.5), 2),
            BenchFigure("plain_p99_milliseconds", "\(without) p99, ms", calm.milliseconds(0.99), 2),
            BenchFigure("failing_p50_milliseconds", "\(with) p50, ms", failing.milliseconds(0.5), 2, goal: "the same"),
            BenchFigure("failing_p99_milliseconds", "\(with) p99, ms", failing.milliseconds(0.99), 2, goal: "the same"),
            BenchFigure("load", "load average", ProcessUsage.load, 2),
        ]
    }

    // MARK: Throughput

    private func throughput(_ handlers: String, _ problems: inout [String]) async throws -> (rate: Double, left: Int) {
        let count = plan.messages
        return try await site.measure(plan.load(count: count), handlers: handlers, plan, &problems) { pair, database in
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
    }

    // MARK: Backlog

    private var backlog: Int { plan.isQuick ? 50_000 : 200_000 }

    private func drain() async throws -> (rate: Double, full: Double, empty: Double, vacuumed: Double) {
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
        return (Double(first?.left ?? 0) / max(seconds, 0.001), full, empty, vacuumed)
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
        var load = plan.load(count: count, sampling: 1)
        load.load.rate = rate
        let (latencies, left) = try await site.measure(load, handlers: handlers, plan, &problems) { pair, database in
            (try await pair.latencies(after: count / 10), try await BenchSite.waiting(database))
        }
        if !handlers.isEmpty, left != count {
            problems.append("\(count - left) deliveries of a handler that always fails are gone")
        }
        return latencies
    }
}
