import Dispatcher
import Postgres
import Vocabulary

/// A run to handlers: queues deliveries as fast as pace and handlers allow.
struct HandlerRun: Sendable {
    let replay: Replay
    let lease: ReplayLease
    let database: RetryingDatabase
    /// The handlers of this process: what they can take at once needs no row and no claim.
    let intake: (any ReplayIntake)?
    let limit: Int64
    /// How often the lease is renewed while nothing can be queued.
    let checkpoint: Duration

    /// The pause while handlers finish deliveries.
    private static let handlerPause = Duration.milliseconds(20)
    /// The same for handlers of this process.
    private static let intakePause = Duration.milliseconds(2)
    /// The longest pause, so that a changed state of the replay is noticed.
    private static let longestPause = Duration.milliseconds(200)

    private var progress: ReplayProgress { database.progress }

    /// Runs until everything is queued, or the lease says to stop.
    func run(from start: ReplayLease.Position) async throws -> ReplayRunner.Ending {
        var pacer = ReplayPacer(replay.pace)
        let begin = ContinuousClock.now
        var renewed = begin
        var done = start.done
        while done < replay.planned {
            try Task.checkCancellation()
            switch try await allowance(&pacer, from: done, now: ContinuousClock.now - begin) {
            case .send(let count):
                guard let step = try await queue(Int64(count), from: done) else {
                    // The handlers here are busy with live messages.
                    progress.set { $0.waiting = "waiting for the handlers" }
                    try await Task.sleep(for: Self.intakePause)
                    if let ending = try await renew(&renewed) { return ending }
                    continue
                }
                if let ending = step.ending { return ending }
                pacer.sent(Int(step.done - done))
                done = step.done
            case .wait(let pause):
                try await Task.sleep(for: min(pause, Self.longestPause))
                if let ending = try await renew(&renewed) { return ending }
                continue
            }
            renewed = .now
        }
        return .finished
    }

    /// Renews the lease where that is due; returns why the run is to end, if it is.
    private func renew(_ renewed: inout ContinuousClock.Instant) async throws -> ReplayRunner.Ending? {
        guard ContinuousClock.now - renewed >= checkpoint else { return nil }
        renewed = .now
        return try await database.run { connection throws(PostgresError) in try lease.renew(connection, nil) }
    }

    private func allowance(
        _ pacer: inout ReplayPacer,
        from position: Int64,
        now: Duration
    ) async throws -> ReplayPacer.Allowance {
        let count = min(ReplayPlanner.chunkSize, replay.planned - position, limit)
        let pending = try await database.run { connection throws(PostgresError) in
            try connection.run(FeedStatements.pending, .init(replay: replay.id, limit: limit)).value(Int64.self)
        }
        // Wait for enough room to be worth a transaction.
        guard limit - pending >= max(1, min(limit / 4, count)) else {
            progress.set { $0.waiting = "waiting for the handlers" }
            return .wait(intake == nil ? Self.handlerPause : Self.intakePause)
        }
        let room = min(count, limit - pending)
        guard pacer.needsTimes else { return pacer.allowance(of: Int(room), times: [], now: now) }
        let span = SelectionStatements.Span(replay: replay.id, start: position, limit: room)
        let times = try await database.run { connection throws(PostgresError) in
            try connection.run(SelectionStatements.times, span).rows(as: Timestamp.self)
        }
        return pacer.allowance(of: times.isEmpty ? Int(room) : times.count, times: times, now: now)
    }

    private func room(for count: Int64) -> ReplayRoom {
        guard let intake, case .handlers(let names, false) = replay.target else { return .rows }
        return intake.offer(toReplay: Int(count), to: names)
    }

    /// Takes a step and hands its messages to the handlers of this process.
    ///
    /// The next step is read while they work on these.
    private func handOver(_ offer: LeaseOffer, _ count: Int64, from position: Int64) async throws -> HandlerFeed.Step {
        var messages: [ReplayedMessage]?
        defer {
            if let messages {
                intake?.committed(offer, replayed: messages, by: replay.id)
            } else {
                intake?.withdrawn(offer)
            }
        }
        let step: HandlerFeed.Step
        (step, messages) = try await database.run { connection throws(PostgresError) in
            try HandlerFeed.step(connection, lease, from: position, count: count, to: offer)
        }
        return step
    }

    /// Takes a step; nil if the handlers here have no room now.
    private func queue(_ count: Int64, from position: Int64) async throws -> HandlerFeed.Step? {
        let step: HandlerFeed.Step
        switch room(for: count) {
        case .full: return nil
        case .rows:
            step = try await database.run { connection throws(PostgresError) in
                try HandlerFeed.step(connection, lease, from: position, count: count).step
            }
        case .offer(let offer, let room):
            step = try await handOver(offer, Int64(room), from: position)
        }
        guard step.ending == nil else { return step }
        progress.set {
            $0.done = step.done
            $0.skipped = step.skipped
            $0.waiting = nil
        }
        return step
    }
}
