import ArgumentParser
import Vocabulary
import Worker

/// `bench`: measures the whole path from an emulated server to PostgreSQL and back, from outside the worker.
struct BenchCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "End-to-end throughput, ack latency and memory against the emulator.",
        discussion: """
            Examples:
              upstream-worker bench           # all parts, a few minutes
              upstream-worker bench --quick   # a short run
              upstream-worker bench --only throughput --connections 10 --messages 400000
              upstream-worker bench --only handlers
              upstream-worker bench --only handlers \\
                --handler 'concurrency: 64, plugin: {path: /usr/lib/orders.so}'
              upstream-worker bench --only history --repeats 5
              upstream-worker bench --baseline .build/baseline --repeats 3
              upstream-worker bench --json > bench.json

            Runs a private PostgreSQL (fsync on) in a temporary folder, the emulator in this process and the worker in \
            another. The limit is a loop that inserts the same rows in the same batches with as many writers, without \
            XMPP, into a fresh database of the same server. Use a release build and an idle machine; compare ratios of \
            one run, not figures of two.
            """
    )

    /// A part that can be measured on its own.
    enum Part: String, CaseIterable, ExpressibleByArgument {
        /// Messages per second, compared with the limit.
        case throughput
        /// The ack of a single message on an idle system.
        case single
        /// Memory per idle connection.
        case idle
        /// Memory while the database is locked and the server pushes.
        case stalled
        /// The handlers' cost to the receive path, and the rate at which a backlog is delivered.
        case handlers
        /// The cost of the history of attempts.
        case history
        /// The cost of tracing.
        case tracing
        /// Compared with the bare C worker, in turns.
        case baseline
    }

    @Option(help: "Numbers of connections to measure throughput with, separated by commas.")
    var connections = "1,10"
    @Option(help: "Messages with 10 connections or more; fewer connections get fewer.")
    var messages: Int?
    @Option(help: "Bytes of a message's JSON.")
    var size = 400
    @Option(help: "Unacked messages on a connection.")
    var window = 100
    @Option(help: "Writers of the worker and of the limit.")
    var writers = 2
    @Option(
        help:
            "How often throughput and limit are measured; the run with the median ratio is shown (handlers: the mean)."
    )
    var repeats = 1
    @Option(
        help: ArgumentHelp(
            "Parts to run, separated by commas: throughput, single, idle, stalled, handlers, history, tracing, baseline.",
            valueName: "parts"
        )
    )
    var only: String?
    @Option(
        help: ArgumentHelp(
            "A bare C worker (make baseline) to alternate with ours; the only part unless --only names more.",
            valueName: "program"
        )
    )
    var baseline: String?
    @Option(help: "Messages a second of the paced run beside the bare worker; 0 for none.")
    var paced = 100
    @Option(
        help: ArgumentHelp(
            "The handler that --only handlers measures: its keys in the configuration, name and categories aside.",
            valueName: "yaml"
        )
    )
    var handler = "concurrency: 8, log: {}"
    @Flag(help: "A short run with less exact figures.")
    var quick = false
    @Flag(help: "One JSON object instead of a table.")
    var json = false

    func validate() throws {
        _ = try plan()
    }

    func run(in context: CommandContext) async throws {
        let plan = try plan()
        let report = try await Self.run(until: context.interruption) {
            try await BenchRun(plan: plan, console: context.console).run()
        }
        guard let report else { throw CommandFailure(.negative, "interrupted; all temporary files were removed") }
        if json { try context.console.json(report) } else { report.show(context.console) }
        guard report.problems.isEmpty else {
            throw CommandFailure(.negative, report.problems.joined(separator: "\n"))
        }
    }

    private func plan() throws -> BenchPlan {
        let counts = connections.split(separator: ",").map { Int($0) ?? 0 }
        guard !counts.isEmpty, counts.allSatisfy({ (1...1000).contains($0) }) else {
            throw ValidationError("--connections takes numbers from 1 to 1000, such as 1,10")
        }
        let all = Part.allCases.filter { ![.baseline, .history, .tracing].contains($0) }
        var parts = try only.map { text in
            try text.split(separator: ",").map { text in
                guard let part = Part(rawValue: String(text)) else {
                    throw ValidationError(
                        "--only \(text): known parts are throughput, single, idle, stalled, handlers, history, tracing and baseline"
                    )
                }
                return part
            }
        }
        if baseline != nil { parts = parts ?? [.baseline] }
        guard parts?.contains(.baseline) != true || baseline != nil else {
            throw ValidationError("--only baseline needs --baseline PROGRAM; make baseline builds it")
        }
        guard messages ?? 1000 >= 1000, window >= 1, (1...64).contains(writers), (300...65536).contains(size),
            (1...99).contains(repeats), (0...10_000).contains(paced)
        else {
            throw ValidationError(
                "--messages takes 1000 or more, --size 300 to 65536, --writers 1 to 64, "
                    + "--repeats 1 to 99, --paced 0 to 10000"
            )
        }
        return BenchPlan(
            connections: counts,
            messages: messages ?? (quick ? 40_000 : 200_000),
            size: size,
            window: window,
            writers: writers,
            repeats: repeats,
            parts: Set(parts ?? all),
            baseline: baseline,
            paced: paced,
            handler: handler,
            isQuick: quick
        )
    }

    /// Runs `body`; an interruption cancels it, and the result is nil.
    private static func run<T: Sendable>(
        until interruption: @escaping @Sendable () async -> Void,
        _ body: @escaping @Sendable () async throws -> T
    ) async throws -> T? {
        try await withThrowingTaskGroup(of: T?.self) { group in
            group.addTask {
                do {
                    return try await body()
                } catch  where Task.isCancelled {
                    return nil
                }
            }
            group.addTask {
                await interruption()
                return nil
            }
            let first = try await group.next() ?? nil
            group.cancelAll()
            try await group.waitForAll()
            return first
        }
    }
}
