package import CCSEmulator
import Glibc
import NIOCore
import Synchronization
import Vocabulary

/// An emulated server in this process with a worker in another process connected to it.
package final class BenchPair: Sendable {
    /// The figures at one moment.
    package struct Reading {
        package var time: ContinuousClock.Instant
        package var acked: Int
        /// CPU seconds of the worker, of PostgreSQL and of this process, the emulator.
        package var worker: Double
        package var postgres: Double
        var own: Double
        /// Ack latencies in seconds since the previous reading.
        package var latencies: [Double]
    }

    let emulator: Emulator
    package let worker: WorkerProcess
    private let postgres: Int32
    private let found = Mutex<[String]>([])

    /// Starts both; `handlers` is YAML.
    package convenience init(
        _ settings: EmulatorConfiguration,
        _ database: String,
        at site: BenchSite,
        handlers: String = "",
        _ plan: BenchPlan
    ) async throws {
        try await self.init(settings, at: site) { emulator in
            try site.startWorker(emulator, database: database, settings: settings, handlers: handlers, plan)
        }
    }

    /// Starts both, the worker by a function.
    package init(
        _ settings: EmulatorConfiguration,
        at site: BenchSite,
        worker start: (Emulator) throws -> WorkerProcess
    ) async throws {
        emulator = try await Emulator.start(settings)
        do {
            worker = try start(emulator)
        } catch {
            await emulator.stop()
            throw error
        }
        postgres = site.postgres
    }

    /// Starts an emulator with `count` messages and a worker with these handlers, over its own database.
    ///
    /// With a `rate` in messages per second, every latency is sampled; without one, messages go as fast as possible,
    /// and none is.
    package static func start(
        _ handlers: String,
        count: Int,
        rate: Double? = nil,
        at site: BenchSite,
        _ plan: BenchPlan
    ) async throws -> (pair: BenchPair, database: String) {
        let database = try await site.makeDatabase()
        var settings = BenchLoad.emulator(
            count: count,
            connections: 10,
            size: plan.size,
            window: plan.window,
            sampling: rate.map { _ in 1 }
        )
        settings.load.rate = rate
        return (try await BenchPair(settings, database, at: site, handlers: handlers, plan), database)
    }

    /// Problems with the acks; known after ``stopping(_:)``.
    package var problems: [String] { found.withLock { $0 } }

    /// Runs `body` and stops both, whatever its outcome.
    package func stopping<T>(_ body: () async throws -> T) async throws -> T {
        do {
            let value = try await body()
            await stop()
            return value
        } catch {
            await stop()
            throw error
        }
    }

    /// Waits for a condition; ends early if the worker has ended or the task is cancelled.
    package func wait(_ what: String, until condition: @escaping @Sendable (EmulatorSnapshot) -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(300)
        while true {
            try Task.checkCancellation()
            try worker.check()
            do {
                return try await emulator.wait(for: what, limit: .milliseconds(500), until: condition)
            } catch let error as EmulatorError {
                guard ContinuousClock.now < deadline else {
                    throw CommandFailure(.temporaryFailure, error.message)
                }
            }
        }
    }

    package func reading() async throws -> Reading {
        let time = ContinuousClock.now
        let acked = await emulator.tally().acked
        return Reading(
            time: time,
            acked: acked,
            worker: ProcessUsage.process(worker.id).cpu,
            postgres: ProcessUsage.family(postgres).cpu,
            own: ProcessUsage.process(getpid()).cpu,
            latencies: try await emulator.takeLatencies()
        )
    }

    private func stop() async {
        let tally = await emulator.tally()
        worker.stop()
        await emulator.stop()
        guard !Task.isCancelled, !tally.isClean else { return }
        found.withLock { $0.append("acks: " + tally.problems.joined(separator: ", ")) }
    }
}
