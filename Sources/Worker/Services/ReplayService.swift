import Dispatcher
import Logging
import Postgres
import Replaying
import Synchronization
import Telemetry
import UpstreamConfiguration
import Vocabulary

/// Runs replays to handlers, beside the handlers themselves; each replay runs in one worker.
final class ReplayService: Sendable {
    private let parts: WorkerParts
    /// The replays that this worker runs.
    private let running = Mutex<Set<Digest128>>([])

    /// How often to look for replays that no process runs.
    private static let interval = Duration.seconds(2)
    /// The most concurrent replays in this worker.
    private static let limit = 4

    init(_ parts: WorkerParts) { self.parts = parts }

    /// Runs until cancelled.
    func run() async throws {
        guard try await parts.monitor.waitUntilReady() else { return }
        let client = PostgresClient(parts.database)
        await look(client)
        await client.close()
    }

    private func look(_ client: PostgresClient) async {
        var isWarned = false
        await withDiscardingTaskGroup { group in
            while !Task.isCancelled {
                do throws(PostgresError) {
                    let found = try await client.run { connection throws(PostgresError) in
                        try ReplayTable.abandoned(connection)
                    }
                    isWarned = false
                    for replay in found
                    where running.withLock({ $0.count < Self.limit && $0.insert(replay.id).inserted }) {
                        group.addTask { [self] in
                            parts.metrics.replaysRunning.add(1)
                            await run(replay)
                            parts.metrics.replaysRunning.add(-1)
                            _ = running.withLock { $0.remove(replay.id) }
                        }
                    }
                } catch {
                    if !isWarned, !Task.isCancelled {
                        parts.logger.event(
                            .warning,
                            .databaseUnavailable,
                            "cannot look for replays to run; retrying",
                            [.error: .string(error.description)]
                        )
                    }
                    isWarned = true
                }
                try? await Task.sleep(for: Self.interval)
            }
        }
    }

    private func run(_ replay: Replay) async {
        let client = PostgresClient(parts.database)
        var options = ReplayRunner.Settings(owner: "worker \(DispatchRunner.workerName)")
        options.lease = min(options.lease, parts.configuration.lease)
        let intake = parts.dispatch?.service.replays
        let runner = ReplayRunner(client, settings: options, logger: parts.logger, intake: intake)
        var fields: LogFields = [.replay: .string(replay.id.description)]
        do {
            let ending = try await runner.run(replay)
            fields[.state] = .string(ending.name)
            if case .failed(_, let reason) = ending { fields[.error] = .string(reason) }
        } catch {
            fields[.state] = "interrupted"
            fields[.error] = .string("\(error)")
        }
        parts.logger.event(.info, .replayEnded, "replay run ended", fields)
        await client.close()
    }
}

extension ReplayRunner.Ending {
    fileprivate var name: String {
        switch self {
        case .finished: "finished"
        case .stopped(let state): state.rawValue
        case .held: "held"
        case .lost: "lost"
        case .failed: "failed"
        case .released: "released"
        }
    }
}
