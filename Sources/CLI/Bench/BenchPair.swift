import CCSEmulator
import Glibc
import LocalDatabase
import NIOCore
import Postgres
import Synchronization
import Worker

/// An emulated server in this process and a worker in another that is connected to it.
final class BenchPair: Sendable {
    /// The figures of one moment.
    struct Reading {
        var time: ContinuousClock.Instant
        var acked: Int
        /// CPU seconds of the worker, of PostgreSQL and of this process, which is the emulator.
        var worker: Double
        var postgres: Double
        var own: Double
        /// How often threads of the worker have gone to sleep.
        var sleeps: Int
        /// Ack latencies in seconds since the reading before.
        var latencies: [Double]
    }

    let emulator: Emulator
    let worker: WorkerProcess
    private let cluster: Int32
    private let found = Mutex<[String]>([])

    /// Starts both; with `baseline` the worker is that program (`Benchmarks/Baseline`).
    init(
        _ site: BenchSite,
        _ settings: EmulatorConfiguration,
        database: String,
        connections: Int,
        handlers: String = "",
        baseline: String? = nil,
        _ plan: BenchPlan
    ) async throws {
        let emulator = try await Emulator.start(settings)
        do {
            if let baseline {
                worker = try site.startBaseline(
                    baseline,
                    emulator,
                    database: database,
                    connections: connections,
                    writers: plan.writers
                )
            } else {
                worker = try site.startWorker(
                    emulator,
                    database: database,
                    connections: connections,
                    window: plan.window,
                    writers: plan.writers,
                    handlers: handlers
                )
            }
        } catch {
            await emulator.stop()
            throw error
        }
        self.emulator = emulator
        cluster = site.cluster.processID ?? 0
    }

    /// What was wrong with the acks; known after ``stopping(_:)``.
    var problems: [String] { found.withLock { $0 } }

    /// Runs `body` and stops both, whatever it does.
    func stopping<T>(_ body: () async throws -> T) async throws -> T {
        do {
            let value = try await body()
            await stop()
            return value
        } catch {
            await stop()
            throw error
        }
    }

    /// Waits until something holds; ends early where the worker has ended, or with cancellation.
    func wait(_ what: String, until condition: @escaping @Sendable (EmulatorSnapshot) -> Bool) async throws {
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

    /// The figures of this moment.
    func reading() async throws -> Reading {
        let time = ContinuousClock.now
        let acked = await emulator.tally().acked
        return Reading(
            time: time,
            acked: acked,
            worker: ProcessUsage.process(worker.id).cpu,
            postgres: ProcessUsage.family(cluster).cpu,
            own: ProcessUsage.process(getpid()).cpu,
            sleeps: ProcessUsage.sleeps(worker.id),
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
