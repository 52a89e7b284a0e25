package import Logging
import MessageStore
package import Postgres
import Telemetry
import Vocabulary

/// Runs one replay, or goes on with one: takes its lease, sends, and keeps account of how far it is.
package struct ReplayRunner: Sendable {
    /// How a run ended.
    package enum Ending: Sendable, Equatable {
        /// Everything has been sent.
        case finished
        /// A person paused or cancelled it, or it had ended before.
        case stopped(ReplayState)
        /// Another process runs it, until then unless it renews its lease.
        case held(by: String, until: Int64)
        /// Another process has taken it over.
        case lost
        /// The target can't be had.
        case failed(ReplayError.Kind, String)
        /// This process was asked to stop; another may go on.
        case released
    }

    /// What a runner can be told.
    package struct Settings: Sendable {
        /// Who runs, for people: host and process id.
        package var owner: String
        /// How long a lease holds unless it is renewed.
        package var lease = Duration.seconds(15)
        /// How often the position is written down and the state looked at.
        package var checkpoint = Duration.milliseconds(500)
        /// The default for ``ReplayPace/concurrency``: deliveries that may wait for handlers.
        package var deliveries = 1_000
        /// The default for ``ReplayPace/concurrency``: unacked messages.
        package var window = 100

        package init(owner: String) { self.owner = owner }
    }

    private let client: PostgresClient
    private let settings: Settings
    private let logger: Logger

    /// A runner over a database.
    package init(_ client: PostgresClient, settings: Settings, logger: Logger) {
        self.client = client
        self.settings = settings
        self.logger = logger
    }

    /// Runs a replay until it ends, one way or the other.
    ///
    /// Cancelling the task gives the lease back.
    ///
    /// - Parameters:
    ///   - replay: The replay; what it holds of its progress is not relied on.
    ///   - endpoint: How to reach the target, where that is an XMPP server.
    ///   - progress: Is told how far the run is.
    /// - Throws: ``PostgresError`` where the database can't be had at the start.
    /// - Returns: How the run ended.
    package func run(
        _ replay: Replay,
        endpoint: EndpointSettings? = nil,
        progress: ReplayProgress = ReplayProgress()
    ) async throws -> Ending {
        let taking = try await client.run { connection throws(PostgresError) in
            try ReplayLease.take(connection, replay.id, owner: settings.owner, length: settings.lease)
        }
        let lease: ReplayLease
        let start: ReplayLease.Position
        switch taking {
        case .stopped(let state): return .stopped(state)
        case .held(let owner, let until): return .held(by: owner, until: until)
        case .taken(let taken, let position): (lease, start) = (taken, position)
        }
        progress.set { $0 = .init(planned: replay.planned, done: start.done, skipped: start.skipped) }
        logger.event(.info, .replayTaken, "running a replay", [.replay: .string(replay.id)])
        let ending: Ending
        do {
            switch replay.target {
            case .handlers: ending = try await feed(replay, lease, start, progress)
            case .output(let path, let format):
                let output = try await openOutput(path, format, lease, start)
                ending = try await send(replay, lease, output, start, progress)
            case .endpoint:
                guard let endpoint else { throw ReplayError(.invalid, "there is no way to the target") }
                let sink = EndpointSink(
                    endpoint,
                    from: start,
                    window: replay.pace.concurrency ?? settings.window,
                    progress: progress,
                    logger: logger
                )
                ending = try await send(replay, lease, sink, start, progress)
            }
        } catch is CancellationError {
            ending = .released
        } catch let error as ReplayError {
            ending = .failed(error.kind, error.message)
        } catch let error as PostgresError where Task.isCancelled || error.sqlState == "57014" {
            ending = .released
        }
        return try await conclude(lease, ending)
    }

    /// Writes down how a run ended, also where this task has been cancelled.
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

    // MARK: Handlers

    private func feed(
        _ replay: Replay,
        _ lease: ReplayLease,
        _ start: ReplayLease.Position,
        _ progress: ReplayProgress
    ) async throws -> Ending {
        let limit = Int64(max(1, replay.pace.concurrency ?? settings.deliveries))
        var pacer = ReplayPacer(replay.pace, now: monotonic())
        var done = start.done
        var renewed = monotonic()
        while done < replay.planned {
            try Task.checkCancellation()
            var pause: UInt64 = 0
            var count = min(ReplayPlanner.chunkSize, replay.planned - done, limit)
            let waiting = try await patiently(progress) { connection throws(PostgresError) in
                try HandlerFeed.waiting(connection, replay.id, limit: limit)
            }
            // In pieces worth a transaction.
            if limit - waiting < max(1, min(limit / 4, count)) {
                pause = 20_000_000
                progress.set { $0.waiting = "waiting for the handlers" }
            } else {
                count = min(count, limit - waiting)
                switch try await allowance(&pacer, replay, done, count, progress) {
                case .wait(let time): pause = time
                case .send(let allowed): count = Int64(allowed)
                }
            }
            if pause == 0 {
                let place = done
                let amount = count
                let step = try await patiently(progress) { connection throws(PostgresError) in
                    try HandlerFeed.step(connection, lease, from: place, count: amount)
                }
                if let ending = Self.ending(step.standing) { return ending }
                pacer.sent(Int(step.done - done))
                done = step.done
                renewed = monotonic()
                progress.set {
                    $0.done = step.done
                    $0.skipped = step.skipped
                    $0.waiting = nil
                }
            } else {
                try await Task.sleep(for: .nanoseconds(min(pause, 200_000_000)))
                if monotonic() - renewed >= checkpointNanoseconds {
                    let standing = try await patiently(progress) { connection throws(PostgresError) in
                        try lease.renew(connection, nil)
                    }
                    if let ending = Self.ending(standing) { return ending }
                    renewed = monotonic()
                }
            }
        }
        return .finished
    }

    private func allowance(
        _ pacer: inout ReplayPacer,
        _ replay: Replay,
        _ done: Int64,
        _ count: Int64,
        _ progress: ReplayProgress
    ) async throws -> ReplayPacer.Allowance {
        var times: [Int64] = []
        if pacer.needsTimes {
            times = try await patiently(progress) { connection throws(PostgresError) in
                try ReplayReader.times(connection, replay.id, from: done, limit: count)
            }
        }
        return pacer.allowance(of: times.isEmpty ? Int(count) : times.count, times: times, now: monotonic())
    }

    // MARK: Other targets

    /// Opens the output; which file it is stands in the database before anything stands in the file.
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

    private func send(
        _ replay: Replay,
        _ lease: ReplayLease,
        _ sink: some ReplaySink,
        _ start: ReplayLease.Position,
        _ progress: ReplayProgress
    ) async throws -> Ending {
        let result = await withTaskGroup(of: Result<Ending?, any Error>.self) { group in
            group.addTask { await Self.catching { try await pour(replay, sink, start, progress) } }
            group.addTask { await Self.catching { try await keep(lease, sink, progress) } }
            group.addTask {
                await sink.run()
                return .success(nil)
            }
            var first: Result<Ending, any Error>?
            while first == nil, let result = await group.next() {
                switch result {
                case .success(let ending?): first = .success(ending)
                case .success(nil): continue
                case .failure(let error): first = .failure(error)
                }
            }
            group.cancelAll()
            return first ?? .failure(CancellationError())
        }
        // What has been done by now is written down whatever the ending is.
        let ending = try await Task {
            if let position = try? await sink.position() {
                let standing = try await client.run { connection throws(PostgresError) in
                    try lease.renew(connection, position)
                }
                progress.set {
                    $0.done = position.done
                    $0.skipped = position.skipped
                }
                if let ending = Self.ending(standing) { return Result<Ending, any Error>.success(ending) }
            }
            return result
        }.value
        await sink.close()
        return try ending.get()
    }

    private static func catching(_ body: () async throws -> Ending?) async -> Result<Ending?, any Error> {
        do {
            return .success(try await body())
        } catch {
            return .failure(error)
        }
    }

    /// Reads the selection and gives it to the sink at the wished pace.
    private func pour(
        _ replay: Replay,
        _ sink: some ReplaySink,
        _ start: ReplayLease.Position,
        _ progress: ReplayProgress
    ) async throws -> Ending {
        var pacer = ReplayPacer(replay.pace, now: monotonic())
        var next = start.done
        while next < replay.planned {
            let place = next
            let items = try await patiently(progress) { connection throws(PostgresError) in
                try ReplayReader.read(connection, replay.id, from: place, limit: 250)
            }
            guard !items.isEmpty else { throw ReplayError(.invalid, "the replay's selection is not whole") }
            next += Int64(items.count)
            var rest = items[...]
            while !rest.isEmpty {
                try Task.checkCancellation()
                let times = pacer.needsTimes ? rest.map(\.receivedAt) : []
                switch pacer.allowance(of: rest.count, times: times, now: monotonic()) {
                case .wait(let time): try await Task.sleep(for: .nanoseconds(min(time, 3_600_000_000_000)))
                case .send(let count):
                    try await sink.send(Array(rest.prefix(count)))
                    pacer.sent(count)
                    rest = rest.dropFirst(count)
                }
            }
        }
        try await sink.finish()
        return .finished
    }

    /// Writes down how far the sink is, and looks whether the run shall go on.
    private func keep(
        _ lease: ReplayLease,
        _ sink: some ReplaySink,
        _ progress: ReplayProgress
    ) async throws -> Ending {
        while true {
            try await Task.sleep(for: settings.checkpoint)
            let position = try await sink.position()
            progress.set {
                $0.done = position.done
                $0.skipped = position.skipped
            }
            let standing = try await patiently(progress) { connection throws(PostgresError) in
                try lease.renew(connection, position)
            }
            if let ending = Self.ending(standing) { return ending }
        }
    }

    // MARK: Inside

    private static func ending(_ standing: ReplayLease.Standing) -> Ending? {
        switch standing {
        case .held: nil
        case .stopped(let state): .stopped(state)
        case .lost: .lost
        }
    }

    /// Waits while the database can't be had: what is asked of it can be asked again.
    private func patiently<T: Sendable>(
        _ progress: ReplayProgress,
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws -> T {
        while true {
            do throws(PostgresError) {
                return try await client.run(body)
            } catch {
                try Task.checkCancellation()
                guard error.isEnvironment, error.failureClass != .schema, error.failureClass != .permission else {
                    throw ReplayError(.invalid, "the database refuses a step of the replay: \(error)")
                }
                progress.set { $0.waiting = "waiting for the database" }
                logger.event(
                    .warning,
                    .databaseUnavailable,
                    "a replay waits for the database",
                    [.error: .string(error.description)]
                )
            }
            try await Task.sleep(for: .milliseconds(500))
        }
    }

    private var checkpointNanoseconds: UInt64 { UInt64(max(0, settings.checkpoint.microseconds)) * 1_000 }

    private func monotonic() -> UInt64 { MonotonicTime.now.nanoseconds }
}
