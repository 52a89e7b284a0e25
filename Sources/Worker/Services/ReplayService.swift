import Dispatcher
import Logging
import Postgres
import Replaying
import ServiceLifecycle
import Telemetry
import Vocabulary

/// Runs replays to handlers, beside the handlers themselves; each replay runs in one worker.
struct ReplayService: Service {
    let settings: PostgresSettings
    let monitor: DatabaseMonitor
    /// How long a replay stays leased to a dead worker.
    let lease: Duration
    /// The handlers of this worker, if it has any.
    let intake: (any ReplayIntake)?
    let metrics: Metrics
    let logger: Logger

    /// How often to look for replays that no process runs.
    private static let interval = Duration.seconds(2)
    /// The most concurrent replays in this worker.
    private static let limit = 4

    func run() async throws {
        try await cancelWhenGracefulShutdown {
            do {
                try await monitor.waitUntilReady()
            } catch is CancellationError {
                return
            }
            let client = PostgresClient(settings)
            await look(client)
            await client.close()
        }
    }

    private func look(_ client: PostgresClient) async {
        var isWarned = false
        let running = RunningReplays()
        await withDiscardingTaskGroup { group in
            while !Task.isCancelled {
                do throws(PostgresError) {
                    let found = try await client.run { connection throws(PostgresError) in
                        try ReplayTable.abandoned(connection)
                    }
                    isWarned = false
                    for replay in found where await running.begin(replay.id, limit: Self.limit) {
                        group.addTask {
                            metrics.replaysRunning.add(1)
                            await self.run(replay)
                            metrics.replaysRunning.add(-1)
                            await running.end(replay.id)
                        }
                    }
                } catch {
                    if !isWarned, !Task.isCancelled {
                        logger.event(
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
        let client = PostgresClient(settings)
        var options = ReplayRunner.Settings(owner: "worker \(DispatchRunner.workerName)")
        options.lease = min(options.lease, lease)
        let runner = ReplayRunner(client, settings: options, logger: logger, intake: intake)
        var fields: LogFields = [.replay: .string(replay.id.description)]
        do {
            let ending = try await runner.run(replay)
            fields[.state] = .string(ending.name)
            if case .failed(_, let reason) = ending { fields[.error] = .string(reason) }
        } catch {
            fields[.state] = "interrupted"
            fields[.error] = .string("\(error)")
        }
        logger.event(.info, .replayEnded, "replay run ended", fields)
        await client.close()
    }
}

extension ReplayRunner.Ending {
    /// The log's name for it.
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

/// The replays that this worker runs.
private actor RunningReplays {
    private var ids: Set<Digest128> = []

    func begin(_ id: Digest128, limit: Int) -> Bool {
        ids.count < limit && ids.insert(id).inserted
    }

    func end(_ id: Digest128) { ids.remove(id) }
}
