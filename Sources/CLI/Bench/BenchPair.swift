import CCSEmulator
import Glibc
import LocalDatabase
import NIOCore
import Postgres
import Synchronization
import Vocabulary

/// An emulated server in this process with a worker in another process connected to it.
final class BenchPair: Sendable {
    /// The figures at one moment.
    struct Reading {
        var time: ContinuousClock.Instant
        var acked: Int
        /// CPU seconds of the worker, of PostgreSQL and of this process, the emulator.
        var worker: Double
        var postgres: Double
        var own: Double
        /// Voluntary context switches of the worker's threads.
        var sleeps: Int
        /// Ack latencies in seconds since the previous reading.
        var latencies: [Double]
    }

    let emulator: Emulator
    let worker: WorkerProcess
    private let cluster: Int32
    private let found = Mutex<[String]>([])

    /// Starts both; `baseline` is a program to run as the worker (`Benchmarks/Baseline`).
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

    /// Problems with the acks; known after ``stopping(_:)``.
    var problems: [String] { found.withLock { $0 } }

    /// Runs `body` and stops both, whatever its outcome.
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

    /// Waits for a condition; ends early if the worker has ended or the task is cancelled.
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
