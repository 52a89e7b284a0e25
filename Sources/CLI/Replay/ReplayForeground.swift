import Foundation
import Glibc
import Logging
import Postgres
import Replaying
import Vocabulary

/// A replay that this process runs: shows how far it is, and pauses it at a signal.
struct ReplayForeground {
    let replay: Replay
    let settings: PostgresSettings
    /// Microseconds; nil for the usual length.
    let lease: Int64?
    let way: EndpointSettings?

    /// Runs it to its end, one way or the other.
    ///
    /// - Parameter connection: Where a signal's pause is written.
    /// - Throws: `PostgresError` where the database can't be had.
    /// - Returns: How the run ended.
    func run(controlling connection: PostgresConnection) async throws -> ReplayRunner.Ending {
        let progress = ReplayProgress()
        var options = ReplayRunner.Settings(owner: "\(ReplayCommand.who) process \(getpid())")
        if let lease { options.lease = .microseconds(lease) }
        let runner = ReplayRunner(
            PostgresClient(settings),
            settings: options,
            logger: Logger(label: "replay") { _ in SwiftLogNoOpLogHandler() }
        )
        let patience = ContinuousClock.now + options.lease + .seconds(5)
        return try await withThrowingTaskGroup(of: ReplayRunner.Ending?.self) { group in
            group.addTask {
                while true {
                    let ending = try await runner.run(replay, endpoint: way, progress: progress)
                    // Whoever held it last may be dead: then its lease ends by itself.
                    guard case .held(let owner, _) = ending, ContinuousClock.now < patience else { return ending }
                    progress.note("\(owner), whose lease ends unless it still runs")
                    try await Task.sleep(for: .milliseconds(200))
                }
            }
            group.addTask {
                await show(progress)
                return nil
            }
            group.addTask {
                await TerminationSignal.wait()
                guard !Task.isCancelled else { return nil }
                _ = try await ReplayTable.apply(.pause, to: replay.id, who: ReplayCommand.who, over: connection)
                return nil
            }
            defer { group.cancelAll() }
            while let ending = try await group.next() {
                if let ending { return ending }
            }
            throw CancellationError()
        }
    }

    /// A bar on a terminal, a line every ten seconds elsewhere.
    private func show(_ progress: ReplayProgress) async {
        let bar = ProgressBar(replay.name)
        let isTerminal = isatty(STDERR_FILENO) == 1
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
            if let waiting = view.waiting { note += "  waits for \(waiting)" }
            if isTerminal {
                bar.show(view.done, of: view.planned, note)
            } else if Int((ContinuousClock.now - start) / .seconds(10)) > lines {
                lines += 1
                Console.message("\(replay.name)  \(note)")
            }
            try? await Task.sleep(for: .milliseconds(200))
        }
        bar.clear()
    }
}

/// The rate of the last ten seconds.
struct RateMeter {
    private var points: [(time: ContinuousClock.Instant, count: Int64)] = []

    /// Takes a count and gives the rate so far, a second.
    mutating func add(_ count: Int64, at time: ContinuousClock.Instant) -> Double {
        points.append((time, count))
        while let first = points.first, points.count > 2, time - first.time > .seconds(10) { points.removeFirst() }
        guard let first = points.first, time > first.time else { return 0 }
        return Double(count - first.count) / ((time - first.time) / .seconds(1))
    }
}
