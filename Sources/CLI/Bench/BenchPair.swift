package import CCSEmulator
import Glibc
import NIOCore
import Synchronization
import Vocabulary

/// An emulated server in this process with a worker in another process connected to it.
package final class BenchPair: Sendable {
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

    /// Waits for every ack; the latencies of those after the first `warmUp`.
    func latencies(after warmUp: Int) async throws -> [Double] {
        try await wait("the warm-up") { $0.tally.acked >= warmUp }
        _ = try await reading()
        try await wait("every ack") { $0.isComplete }
        return try await reading().latencies
    }

    package func reading() async throws -> Reading {
        let time = ContinuousClock.now
        let acked = await emulator.tally().acked
        return Reading(
            time: time,
            acked: acked,
            worker: ProcessUsage.cpu(of: worker.id),
            postgres: ProcessUsage.cpu(ofFamily: postgres),
            own: ProcessUsage.cpu(of: getpid()),
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
