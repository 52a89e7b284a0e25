import Glibc
import Logging
import MessageStore
import Postgres
import Replaying
import Vocabulary
import XMPPEndpoint

/// A replay run by this process: shows its progress, and pauses it at a signal.
struct ReplayForeground {
    let replay: Replay
    let settings: PostgresSettings
    /// In microseconds; nil for the default.
    let lease: Int64?
    let way: EndpointSettings?
    let context: CommandContext

    /// Runs it until it ends; a signal's pause is written over `connection`.
    ///
    /// - Throws: `PostgresError` if the database does not answer.
    func run(controlling connection: PostgresConnection) async throws -> ReplayRunner.Ending {
        let progress = ReplayProgress()
        var options = ReplayRunner.Settings(owner: "\(ReplayCommand.who) process \(getpid())")
        if let lease { options.lease = .microseconds(lease) }
        let runner = ReplayRunner(
            PostgresClient(settings),
            settings: options,
            logger: Logger(label: "replay") { _ in SwiftLogNoOpLogHandler() }
        )
        let deadline = ContinuousClock.now + options.lease + .seconds(5)
        return try await withThrowingTaskGroup(of: ReplayRunner.Ending?.self) { group in
            group.addTask {
                while true {
                    let ending = try await runner.run(replay, endpoint: way, progress: progress)
                    // The last owner may have died: then its lease expires.
                    guard case .held(let owner, _) = ending, ContinuousClock.now < deadline else { return ending }
                    progress.set { $0.waiting = "waiting for the lease of \(owner) to expire" }
                    try await Task.sleep(for: .milliseconds(200))
                }
            }
            group.addTask {
                await show(progress)
                return nil
            }
            group.addTask {
                await context.interruption()
                guard !Task.isCancelled else { return nil }
                let author = AuditAuthor.command("a signal to the process that ran it")
                _ = try await connection.inTransaction { connection throws(PostgresError) in
                    try ReplayTable.apply(connection, .pause, to: replay.id.description, by: author)
                }.get()
                return nil
            }
            defer { group.cancelAll() }
            while let ending = try await group.next() {
                if let ending { return ending }
            }
            throw CancellationError()
        }
    }

    /// Shows a bar on a terminal, a line every ten seconds elsewhere.
    private func show(_ progress: ReplayProgress) async {
        let bar = ProgressBar(replay.name, on: context.console)
        let isTerminal = context.console.errors.isTerminal
        var meter = RateMeter()
        var lines = 0
        let start = ContinuousClock.now
        while !Task.isCancelled {
            let view = progress.view
            let rate = meter.add(view.done, at: .now)
            var note = "\(Amount.count(view.done)) of \(Amount.count(view.planned))  \(Amount.decimal(rate))/s"
            if rate > 0, view.done < view.planned {
                note += "  \(Amount.time(Double(view.planned - view.done) / rate)) left"
            }
            if let waiting = view.waiting { note += "  \(waiting)" }
            if isTerminal {
                bar.show(view.done, of: view.planned, note)
            } else if Int((ContinuousClock.now - start) / .seconds(10)) > lines {
                lines += 1
                context.console.message("\(replay.name)  \(note)")
            }
            try? await Task.sleep(for: .milliseconds(200))
        }
        bar.clear()
    }
}
