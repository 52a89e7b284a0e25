import CCSEmulator
import NIOCore
import Postgres

/// Runs the plan's parts one after the other.
struct BenchRun: Sendable {
    let plan: BenchPlan
    let parts: Set<BenchCommand.Part>
    /// The measured handler, as a line of the configuration without name and categories.
    let handler: String
    let site: BenchSite
    let console: Terminal

    /// Runs all parts.
    func run() async throws -> BenchReport {
        var report = BenchReport()
        if parts.contains(.throughput) {
            for connections in plan.counts {
                note("throughput with \(connections) connections")
                report.throughput.append(try await throughput(connections: connections, &report))
            }
        }
        if parts.contains(.single) {
            note("one message at a time")
            report.single = try await single(&report)
        }
        if parts.contains(.idle) {
            note("idle connections")
            report.idle = try await idle()
        }
        if parts.contains(.stalled) {
            note("a locked database")
            report.stalled = try await stalled(&report)
        }
        if parts.contains(.handlers) {
            report.handlers = try await BenchHandlers(plan: plan, handler: handler, site: site, console: console)
                .run(&report.problems)
        }
        return report
    }

    private func note(_ text: String) { console.message("bench: \(text)") }

    // MARK: parts

    private func throughput(
        connections: Int,
        _ report: inout BenchReport
    ) async throws -> BenchReport.Throughput {
        let count = plan.messages(connections: connections)
        let warmUp = count / 5
        let database = try await site.makeDatabase()
        let settings = BenchLoad.emulator(
            count: count,
            connections: connections,
            size: plan.size,
            window: plan.window,
            sampling: 7
        )
        let pair = try await BenchPair(settings, database, at: site, plan)
        let measured = try await pair.stopping {
            try await pair.wait("\(warmUp) acks") { $0.tally.acked >= warmUp }
            let before = try await pair.reading()
            try await pair.wait("every ack") { $0.isComplete }
            let after = try await pair.reading()
            return (before: before, after: after, memory: ProcessUsage.memory(pair.worker.id))
        }
        report.problems += pair.problems
        let sizes = try await BenchSite.batchSizes(database)
        try await site.dropDatabase()

        note("the limit for it: \(count) rows in \(sizes.count) batches")
        let rows = try BenchLoad.messages(count: count, size: plan.size)
        let limitDatabase = try await site.makeDatabase("bench_limit")
        let limit = try await BenchLimit(rows, sizes: sizes, warmUp: warmUp)
            .run(database: limitDatabase, postgres: site.postgres, writers: plan.writers)
        try await site.dropDatabase("bench_limit")

        let (before, after) = (measured.before, measured.after)
        let messages = Double(after.acked - before.acked)
        let rate = messages / ((after.time - before.time) / .seconds(1))
        return BenchReport.Throughput(
            connections: connections,
            messages: count,
            messagesPerSecond: rate,
            limitRowsPerSecond: limit.rowsPerSecond,
            ratio: rate / limit.rowsPerSecond,
            ratioGoal: BenchReport.ratioGoal(connections: connections),
            ackP50Milliseconds: (after.latencies.quantile(0.5) ?? 0) * 1000,
            ackP99Milliseconds: (after.latencies.quantile(0.99) ?? 0) * 1000,
            workerMicroseconds: (after.worker - before.worker) / messages * 1e6,
            postgresMicroseconds: (after.postgres - before.postgres) / messages * 1e6,
            emulatorMicroseconds: (after.own - before.own) / messages * 1e6,
            limitLoopMicroseconds: limit.loopMicroseconds,
            limitPostgresMicroseconds: limit.postgresMicroseconds,
            memoryMegabytes: Self.megabytes(measured.memory.now),
            memoryPeakMegabytes: Self.megabytes(measured.memory.most),
            batchMean: Double(count) / Double(max(1, sizes.count)),
            batchMedian: sizes.quantile(0.5) ?? 0,
            load: ProcessUsage.load
        )
    }

    private func single(_ report: inout BenchReport) async throws -> BenchReport.Single {
        let count = plan.isQuick ? 500 : 2000
        let database = try await site.makeDatabase()
        let settings = BenchLoad.emulator(count: count, connections: 1, size: plan.size, window: 1, sampling: 1)
        let pair = try await BenchPair(settings, database, at: site, plan)
        let latencies = try await pair.stopping {
            try await pair.wait("warm-up") { $0.tally.acked >= count / 10 }
            _ = try await pair.reading()
            try await pair.wait("every ack") { $0.isComplete }
            return try await pair.reading().latencies
        }
        report.problems += pair.problems
        try await site.dropDatabase()
        let limitDatabase = try await site.makeDatabase("bench_limit")
        let commit = try await BenchLimit.singleCommit(
            try BenchLoad.messages(count: count, size: plan.size),
            database: limitDatabase
        )
        try await site.dropDatabase("bench_limit")
        let median = latencies.quantile(0.5) ?? 0
        return BenchReport.Single(
            ackP50Milliseconds: median * 1000,
            ackP99Milliseconds: (latencies.quantile(0.99) ?? 0) * 1000,
            commitP50Milliseconds: commit * 1000,
            ratio: median / commit
        )
    }

    private func idle() async throws -> BenchReport.Idle {
        let further = plan.isQuick ? 100 : 500
        let database = try await site.makeDatabase()
        var memory: [Double] = []
        for connections in [1, 1 + further] {
            var settings = BenchLoad.emulator(
                count: 0,
                connections: connections,
                size: plan.size,
                window: plan.window,
                sampling: nil
            )
            // Without the occasional whitespace of real servers, a worker takes an idle stream for a dead one.
            settings.whitespaceInterval = .seconds(2)
            let pair = try await BenchPair(settings, database, at: site, plan)
            memory.append(
                try await pair.stopping {
                    try await pair.wait("\(connections) streams") { $0.bound.count == connections }
                    // Whatever runs every few seconds must have run with few connections and with many: it takes
                    // memory, too.
                    try await Task.sleep(for: .seconds(12))
                    return Double(ProcessUsage.memory(pair.worker.id).now)
                }
            )
        }
        try await site.dropDatabase()
        return BenchReport.Idle(
            connections: 1 + further,
            memoryMegabytes: memory[1] / 1e6,
            kilobytesEach: (memory[1] - memory[0]) / Double(further) / 1000
        )
    }

    /// A server without a window sends to a worker whose database is locked.
    private func stalled(_ report: inout BenchReport) async throws -> BenchReport.Stalled {
        let database = try await site.makeDatabase()
        let count = plan.isQuick ? 100_000 : 300_000
        let settings = BenchLoad.emulator(
            count: count,
            connections: 10,
            size: plan.size,
            window: count,
            sampling: nil
        )
        let pair = try await BenchPair(settings, database, at: site, plan)
        let seconds = plan.isQuick ? 6.0 : 20.0
        let locker = try await PostgresConnection.open(PostgresSettings(url: database))
        let result = try await pair.stopping {
            try await pair.wait("first acks") { $0.tally.acked >= 2000 }
            let before = ProcessUsage.memory(pair.worker.id).now
            try await locker.run { connection throws(PostgresError) in
                try connection.script(BenchStatements.lockLedger)
            }
            try await Task.sleep(for: .seconds(seconds * 0.2))
            let early = ProcessUsage.memory(pair.worker.id).now
            try await Task.sleep(for: .seconds(seconds * 0.8))
            let late = ProcessUsage.memory(pair.worker.id).now
            let delivered = await pair.emulator.tally().deliveries
            try await locker.run { connection throws(PostgresError) in try connection.script(BenchStatements.unlock) }
            try await pair.wait("every ack after the lock") { $0.isComplete }
            return BenchReport.Stalled(
                seconds: seconds,
                delivered: delivered,
                memoryBeforeMegabytes: Self.megabytes(before),
                memoryEarlyMegabytes: Self.megabytes(early),
                memoryLateMegabytes: Self.megabytes(late),
                recovered: true
            )
        }
        await locker.close()
        report.problems += pair.problems
        try await site.dropDatabase()
        return result
    }

    private static func megabytes(_ bytes: Int) -> Double { Double(bytes) / 1e6 }
}
