import Postgres

/// A run that reads messages and sends them to a file, stdout or an XMPP endpoint.
struct SinkRun<Sink: ReplaySink>: Sendable {
    let replay: Replay
    let lease: ReplayLease
    let database: RetryingDatabase
    let sink: Sink
    /// How often the position is stored and the replay's state checked.
    let checkpoint: Duration

    private static var pageSize: Int64 { 250 }

    private var progress: ReplayProgress { database.progress }

    /// Runs until everything is sent, the lease says to stop, or the target fails; then closes the sink.
    func run(from start: ReplayLease.Position) async throws -> ReplayRunner.Ending {
        let result: Result<ReplayRunner.Ending, any Error>
        do {
            result = .success(try await sendWatched(from: start))
        } catch {
            result = .failure(error)
        }
        // Not cancelled with this task: whatever the ending, what is done is stored.
        let ending = try await Task {
            guard let position = try? await sink.position() else { return result }
            let stop = try await database.client.run { connection throws(PostgresError) in
                try lease.renew(connection, position)
            }
            show(position)
            return stop.map { .success($0) } ?? result
        }.value
        await sink.close()
        return try ending.get()
    }

    /// Sends, beside watching the replay's state: the first to end ends both.
    private func sendWatched(from start: ReplayLease.Position) async throws -> ReplayRunner.Ending {
        try await withThrowingTaskGroup(of: ReplayRunner.Ending?.self) { group in
            group.addTask { try await sendAll(from: start) }
            group.addTask { try await watch() }
            group.addTask {
                await sink.run()
                return nil
            }
            defer { group.cancelAll() }
            while let ending = try await group.next() {
                if let ending { return ending }
            }
            throw CancellationError()
        }
    }

    /// Reads the selection and sends it at the pace of the replay.
    private func sendAll(from start: ReplayLease.Position) async throws -> ReplayRunner.Ending {
        var pacer = ReplayPacer(replay.pace)
        let begin = ContinuousClock.now
        var next = start.done
        while next < replay.planned {
            let span = SelectionStatements.Span(replay: replay.id, start: next, limit: Self.pageSize)
            let items = try await database.run { connection throws(PostgresError) in
                try ReplayItem.read(connection, span)
            }
            guard !items.isEmpty else { throw ReplayError(.invalid, "the replay's selection is incomplete") }
            next += Int64(items.count)
            var rest = items[...]
            while !rest.isEmpty {
                try Task.checkCancellation()
                let times = pacer.needsTimes ? rest.map(\.receivedAt) : []
                switch pacer.allowance(of: rest.count, times: times, now: ContinuousClock.now - begin) {
                case .wait(let pause): try await Task.sleep(for: min(pause, .seconds(3_600)))
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

    /// Stores the sink's progress until the lease says to stop.
    private func watch() async throws -> ReplayRunner.Ending {
        while true {
            try await Task.sleep(for: checkpoint)
            let position = try await sink.position()
            show(position)
            let ending = try await database.run { connection throws(PostgresError) in
                try lease.renew(connection, position)
            }
            if let ending { return ending }
        }
    }

    private func show(_ position: ReplayLease.Position) {
        progress.set {
            $0.done = position.done
            $0.skipped = position.skipped
        }
    }
}
