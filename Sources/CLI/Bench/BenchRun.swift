import CCSEmulator
import NIOCore
import Postgres

struct BenchRun: Sendable {
    let plan: BenchPlan
    let parts: Set<BenchCommand.Part>
    /// The measured handler, as a line of the configuration without name and categories.
    let handler: String
    let site: BenchSite
    let console: Terminal

    func run() async throws -> BenchReport {
        var report = BenchReport()
        if parts.contains(.throughput) {
            for connections in plan.counts {
                note("throughput with \(connections) connections")
                report.throughput.append(try await throughput(connections: connections, &report.problems))
            }
        }
        if parts.contains(.single) {
            note("one message at a time")
            report.others.append((.single, try await single(&report.problems)))
        }
        if parts.contains(.idle) {
            note("idle connections")
            report.others.append((.idle, try await idle()))
        }
        if parts.contains(.stalled) {
            note("a locked database")
            report.others.append((.stalled, try await stalled(&report.problems)))
        }
        if parts.contains(.handlers) {
            let handlers = BenchHandlers(plan: plan, handler: handler, site: site, console: console)
            report.others.append((.handlers, try await handlers.run(&report.problems)))
        }
        return report
    }

    private func note(_ text: String) { console.message("bench: \(text)") }

    // MARK: parts

    private func throughput(connections: Int, _ problems: inout [String]) async throws -> [BenchFigure] {
        let count = plan.messages(connections: connections)
        let warmUp = count / 5
        let load = plan.load(count: count, connections: connections, sampling: 7)
        let (before, after, memory, sizes) = try await site.measure(load, plan, &problems) { pair, database in
            try await pair.wait("\(warmUp) acks") { $0.tally.acked >= warmUp }
            let before = try await pair.reading()
            try await pair.wait("every ack") { $0.isComplete }
            let after = try await pair.reading()
            let memory = ProcessUsage.memory(pair.worker.id)
            return (before, after, memory, try await BenchSite.batchSizes(database))
        }
        note("the limit for it: \(count) rows in \(sizes.count) batches")
        let rows = try BenchLoad.messages(count: count, size: plan.size)
        let limitDatabase = try await site.makeDatabase("bench_limit")
        let limit = try await BenchLimit(rows, sizes: sizes, warmUp: warmUp)
            .run(database: limitDatabase, postgres: site.postgres, writers: plan.writers)
        try await site.dropDatabase("bench_limit")

        let messages = Double(after.acked - before.acked)
        let rate = messages / ((after.time - before.time) / .seconds(1))
        let goals = [1: 0.45, 10: 0.6]
        let ratioGoal = goals[connections].map { "≥ \(BenchFigure.text($0, 2)) at \(connections)" }
        let mean = Double(count) / Double(max(1, sizes.count))
        let median = sizes.quantile(0.5) ?? 0
        func each(_ seconds: KeyPath<BenchPair.Reading, Double>) -> Double {
            (after[keyPath: seconds] - before[keyPath: seconds]) / messages * 1e6
        }
        return [
            BenchFigure("connections", "CONNECTIONS", connections),
            BenchFigure("messages", "messages", count),
            BenchFigure("messages_per_second", "msg/s", rate, 0),
            BenchFigure("limit_rows_per_second", "limit, rows/s", limit.rowsPerSecond, 0),
            BenchFigure("ratio", "ratio to the limit", rate / limit.rowsPerSecond, 3, goal: ratioGoal ?? ""),
            BenchFigure("ack_p50_milliseconds", "ack p50, ms", after.latencies.milliseconds(0.5), 2),
            BenchFigure("ack_p99_milliseconds", "ack p99, ms", after.latencies.milliseconds(0.99), 2),
            BenchFigure("worker_microseconds", "worker CPU, µs/msg", each(\.worker), 2, goal: "≤ 8"),
            BenchFigure("postgres_microseconds", "PostgreSQL CPU, µs/msg", each(\.postgres), 2),
            BenchFigure("emulator_microseconds", "emulator CPU, µs/msg", each(\.own), 2),
            BenchFigure("limit_loop_microseconds", "limit: loop CPU, µs/row", limit.loopMicroseconds, 2),
            BenchFigure("limit_postgres_microseconds", "limit: PostgreSQL CPU, µs/row", limit.postgresMicroseconds, 2),
            BenchFigure("memory_megabytes", "worker RSS, MB", Self.megabytes(memory.now), 1),
            BenchFigure(
                "memory_peak_megabytes",
                "worker RSS at most, MB",
                Self.megabytes(memory.most),
                1,
                goal: "≤ 60 at 10"
            ),
            BenchFigure("batch_mean", nil, mean),
            BenchFigure("batch_median", "batch: mean, median", median, text: "\(BenchFigure.text(mean, 1)), \(median)"),
            BenchFigure("load", "load average", ProcessUsage.load, 2),
        ] + (goals[connections].map { [BenchFigure("ratio_goal", nil, $0)] } ?? [])
    }

    private func single(_ problems: inout [String]) async throws -> [BenchFigure] {
        let count = plan.isQuick ? 500 : 2000
        let load = plan.load(count: count, connections: 1, window: 1, sampling: 1)
        let latencies = try await site.measure(load, plan, &problems) { pair, _ in
            try await pair.latencies(after: count / 10)
        }
        let limitDatabase = try await site.makeDatabase("bench_limit")
        let commit = try await BenchLimit.singleCommit(
            try BenchLoad.messages(count: count, size: plan.size),
            database: limitDatabase
        )
        try await site.dropDatabase("bench_limit")
        let ratio = (latencies.quantile(0.5) ?? 0) / commit
        return [
            BenchFigure("ack_p50_milliseconds", "one at a time: ack p50, ms", latencies.milliseconds(0.5), 3),
            BenchFigure("ack_p99_milliseconds", "one at a time: ack p99, ms", latencies.milliseconds(0.99), 3),
            BenchFigure("commit_p50_milliseconds", "one-row commit p50, ms", commit * 1000, 3),
            BenchFigure("ratio", "ack p50 to commit p50", ratio, 2, goal: "≤ 4"),
        ]
    }

    private func idle() async throws -> [BenchFigure] {
        let further = plan.isQuick ? 100 : 500
        var memory: [Double] = []
        for connections in [1, 1 + further] {
            var load = plan.load(count: 0, connections: connections)
            // Without the occasional whitespace of real servers, a worker takes an idle stream for a dead one.
            load.whitespaceInterval = .seconds(2)
            // Without messages nothing is acked that could be wrong.
            var ignored: [String] = []
            memory.append(
                try await site.measure(load, plan, &ignored) { pair, _ in
                    try await pair.wait("\(connections) streams") { $0.bound.count == connections }
                    // Whatever runs every few seconds must have run with few connections and with many: it takes
                    // memory, too.
                    try await Task.sleep(for: .seconds(12))
                    return Double(ProcessUsage.memory(pair.worker.id).now)
                }
            )
        }
        let each = (memory[1] - memory[0]) / Double(further) / 1000
        return [
            BenchFigure("connections", nil, 1 + further),
            BenchFigure("memory_megabytes", "RSS with \(1 + further) idle connections, MB", memory[1] / 1e6, 1),
            BenchFigure("kilobytes_each", "each further idle connection, KB", each, 1, goal: "≤ 30"),
        ]
    }

    /// A server without a window sends to a worker whose database is locked.
    private func stalled(_ problems: inout [String]) async throws -> [BenchFigure] {
        let count = plan.isQuick ? 100_000 : 300_000
        let seconds = plan.isQuick ? 6.0 : 20.0
        let load = plan.load(count: count, window: count)
        return try await site.measure(load, plan, &problems) { pair, database in
            let locker = try await PostgresConnection.open(PostgresSettings(url: database))
            func memory() -> Double { Self.megabytes(ProcessUsage.memory(pair.worker.id).now) }
            try await pair.wait("first acks") { $0.tally.acked >= 2000 }
            let before = memory()
            try await locker.run { try $0.script(BenchStatements.lockLedger) }
            try await Task.sleep(for: .seconds(seconds * 0.2))
            let early = memory()
            try await Task.sleep(for: .seconds(seconds * 0.8))
            let late = memory()
            let delivered = await pair.emulator.tally().deliveries
            try await locker.run { try $0.script(BenchStatements.unlock) }
            try await pair.wait("every ack after the lock") { $0.isComplete }
            await locker.close()
            return [
                BenchFigure("seconds", "database locked for, s", seconds, 1),
                BenchFigure("delivered", nil, delivered),
                BenchFigure("memory_before_megabytes", "RSS before the lock, MB", before, 1),
                BenchFigure("memory_early_megabytes", "RSS early in the lock, MB", early, 1),
                BenchFigure("memory_late_megabytes", "RSS at the lock's end, MB", late, 1, goal: "bounded"),
                BenchFigure("recovered", "everything acked afterwards", true, text: "yes", goal: "yes"),
            ]
        }
    }

    private static func megabytes(_ bytes: Int) -> Double { Double(bytes) / 1e6 }
}
