package import Dispatcher
package import Logging
package import Postgres
import Synchronization
import Telemetry
package import Vocabulary

/// Runs or continues one replay: takes its lease, sends, and stores its progress.
package struct ReplayRunner: Sendable {
    package enum Ending: Sendable, Equatable {
        case finished
        /// A person paused or cancelled it, or it had ended before.
        case stopped(ReplayState)
        /// Another process runs it, until then unless it renews its lease.
        case held(by: String, until: Timestamp?)
        case lost
        case failed(ReplayError.Kind, String)
        /// This process was asked to stop; another may continue.
        case released
    }

    package struct Settings: Sendable {
        /// The runner's name for people: host and process id.
        package var owner: String
        /// How long a lease is valid unless it is renewed.
        package var lease = Duration.seconds(15)
        /// How often the position is stored and the replay's state checked.
        package var checkpoint = Duration.milliseconds(500)
        /// The default for ``ReplayPace/concurrency``: deliveries that may be pending.
        package var deliveries = 1_000
        /// The default for ``ReplayPace/concurrency``: unacked messages.
        package var window = 100

        package init(owner: String) { self.owner = owner }
    }

    private let client: PostgresClient
    private let settings: Settings
    private let logger: Logger
    private let intake: (any ReplayIntake)?

    /// Makes a runner; `intake` leads to the handlers of this process, if there are any.
    package init(_ client: PostgresClient, settings: Settings, logger: Logger, intake: (any ReplayIntake)? = nil) {
        (self.client, self.settings, self.logger, self.intake) = (client, settings, logger, intake)
    }

    /// Runs a replay until it ends in any way; cancelling the task releases the lease.
    ///
    /// `replay`'s progress is read anew. `endpoint` says how to reach an XMPP server.
    ///
    /// - Throws: ``PostgresError`` if the database is unavailable at the start.
    package func run(
        _ replay: Replay,
        endpoint: (any ReplayEndpoint)? = nil,
        progress: ReplayProgress = ReplayProgress()
    ) async throws -> Ending {
        let acquisition = try await client.run { connection throws(PostgresError) in
            try ReplayLease.take(connection, replay.id, owner: settings.owner, length: settings.lease)
        }
        let lease: ReplayLease
        let start: ReplayLease.Position
        switch acquisition {
        case .refused(let ending): return ending
        case .taken(let taken, let position): (lease, start) = (taken, position)
        }
        progress.set { $0 = .init(planned: replay.planned, done: start.done, skipped: start.skipped) }
        logger.event(.info, .replayTaken, "running a replay", [.replay: .string(replay.id.description)])
        let ending: Ending
        do {
            ending = try await send(replay, lease, from: start, endpoint, progress)
        } catch is CancellationError {
            ending = .released
        } catch let error as ReplayError {
            ending = .failed(error.kind, error.message)
        } catch let error as PostgresError where Task.isCancelled || error.sqlState == "57014" {
            ending = .released
        }
        return try await conclude(lease, ending)
    }

    private func send(
        _ replay: Replay,
        _ lease: ReplayLease,
        from start: ReplayLease.Position,
        _ endpoint: (any ReplayEndpoint)?,
        _ progress: ReplayProgress
    ) async throws -> Ending {
        let database = RetryingDatabase(client: client, progress: progress, logger: logger)
        func run(_ sink: some ReplaySink) async throws -> Ending {
            let every = settings.checkpoint
            let run = SinkRun(replay: replay, lease: lease, database: database, sink: sink, checkpoint: every)
            return try await run.run(from: start)
        }
        switch replay.target {
        case .handlers:
            let run = HandlerRun(
                replay: replay,
                lease: lease,
                database: database,
                intake: intake,
                limit: Int64(max(1, replay.pace.concurrency ?? settings.deliveries)),
                checkpoint: settings.checkpoint
            )
            return try await run.run(from: start)
        case .output(let path, let format): return try await run(try await openOutput(path, format, lease, start))
        case .endpoint:
            guard let endpoint else { throw ReplayError(.invalid, "the settings of the endpoint are missing") }
            let window = replay.pace.concurrency ?? settings.window
            return try await run(endpoint.open(from: start, window: window, progress: progress, logger: logger))
        }
    }

    /// Opens the output; its identity is stored before anything is written to it.
    private func openOutput(
        _ path: String?,
        _ format: ReplayFormat,
        _ lease: ReplayLease,
        _ start: ReplayLease.Position
    ) async throws -> OutputSink {
        let known = try await client.run { connection throws(PostgresError) in try lease.outputMark(connection) }
        let output = try OutputSink(path: path, format: format, from: start, known)
        guard let mark = output.mark, mark != known else { return output }
        do {
            try await client.run { connection throws(PostgresError) in try lease.note(connection, mark) }
        } catch {
            await output.close()
            throw error
        }
        return output
    }

    /// Stores how a run ended, even if this task has been cancelled.
    private func conclude(_ lease: ReplayLease, _ ending: Ending) async throws -> Ending {
        try await Task {
            try await client.run { connection throws(PostgresError) in
                switch ending {
                case .finished: return try lease.end(connection, error: nil) ? ending : .lost
                case .failed(_, let error): return try lease.end(connection, error: error) ? ending : .lost
                case .stopped, .released: try lease.release(connection)
                case .lost, .held: break
                }
                return ending
            }
        }.value
    }
}

/// The progress of a run, for display.
package final class ReplayProgress: Sendable {
    package struct View: Sendable, Equatable {
        package var planned: Int64 = 0
        package var done: Int64 = 0
        package var skipped: Int64 = 0
        /// The reason for not sending, for display; nil while it sends.
        package var waiting: String?
    }

    private let state = Mutex(View())

    package init() {}

    package var view: View { state.withLock { $0 } }

    package func set(_ change: (inout View) -> Void) { state.withLock { change(&$0) } }
}
