package import ArgumentParser
package import CCSEmulator
import Foundation
import Vocabulary

/// `bench`: measures the whole path from an emulated server to PostgreSQL and back, from outside the worker.
struct BenchCommand: ProgramCommand {
    static let manual = """
        bench: End-to-end throughput, ack latency and memory against the emulator.
          upstream-worker bench           # all parts, a few minutes
          upstream-worker bench --quick   # a short run
          upstream-worker bench --only throughput --connections 10 --messages 400000
          upstream-worker bench --only handlers
          upstream-worker bench --only handlers \\
            --handler 'concurrency: 64, plugin: {path: /usr/lib/orders.so}'
          upstream-worker bench --json > bench.json

        Runs a private PostgreSQL (fsync on) in a temporary folder, the emulator in this process and the worker in \
        another. The limit is a loop that inserts the same rows in the same batches with as many writers, without \
        XMPP, into a fresh database of the same server. Use a release build and an idle machine; compare ratios of \
        one run, not figures of two.
        """

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
    }

    @OptionGroup var plan: BenchPlan
    @Option(help: .value("parts", "Parts to run, separated by commas: throughput, single, idle, stalled, handlers."))
    var only: String?
    @Option(
        help: .value(
            "yaml",
            "The handler that --only handlers measures: its keys in the configuration, name and categories aside."
        )
    )
    var handler = "concurrency: 8, log: {}"

    func validate() throws {
        _ = try parts()
    }

    func run(in context: CommandContext) async throws {
        let (console, plan, handler, parts) = (context.console, plan, handler, Set(try parts()))
        // This program, wherever it is.
        let worker = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        let report = try await BenchSite.with(worker: worker, console, until: context.interruption) { site in
            try await BenchRun(plan: plan, parts: parts, handler: handler, site: site, console: console).run()
        }
        if plan.json { try console.json(report.json) } else { report.show(console) }
        guard report.problems.isEmpty else {
            throw CommandFailure(.negative, report.problems.joined(separator: "\n"))
        }
    }

    private func parts() throws -> [Part] { try only.map { try Part.list($0, of: "--only") } ?? Part.allCases }
}

/// The load of a run: the options that `bench` shares with `Benchmarks/Compare`.
package struct BenchPlan: ParsableArguments, Sendable {
    @Option(help: "Numbers of connections to measure throughput with, separated by commas.") var connections = "1,10"
    @Option(name: .customLong("messages"), help: "Messages with 10 connections or more; fewer connections get fewer.")
    var wanted: Int?
    @Option(help: "Bytes of a message's JSON.") package var size = 400
    @Option(help: "Unacked messages on a connection.") package var window = 100
    @Option(help: "Writers of the worker and of what it is compared with.") package var writers = 2
    @Flag(name: .customLong("quick"), help: "A short run with less exact figures.") package var isQuick = false
    @Flag(help: "One JSON object instead of a table.") package var json = false

    package init() {}

    package func validate() throws {
        guard !counts.isEmpty, counts.allSatisfy({ (1...1000).contains($0) }) else {
            throw ValidationError("--connections takes numbers from 1 to 1000, such as 1,10")
        }
        guard messages >= 1000, window >= 1, (1...64).contains(writers), (300...65536).contains(size) else {
            throw ValidationError("--messages takes 1000 or more, --size 300 to 65536, --writers 1 to 64")
        }
    }

    package var counts: [Int] { connections.split(separator: ",").map { Int($0) ?? 0 } }

    package var messages: Int { wanted ?? (isQuick ? 40_000 : 200_000) }

    /// The emulator's settings for a load with this plan's messages; every `sampling`th ack's latency is kept.
    package func load(
        count: Int,
        connections: Int = 10,
        window: Int? = nil,
        sampling: Int? = nil
    ) -> EmulatorConfiguration {
        var configuration = EmulatorConfiguration()
        configuration.load = BenchLoad.profile(count: count, connections: connections, size: size)
        configuration.window = window ?? self.window
        configuration.latencySampling = sampling
        return configuration
    }

    /// The number of messages for this many connections: one connection is bound by the round trip and needs fewer for
    /// the same time.
    package func messages(connections: Int) -> Int { connections >= 10 ? messages : max(1000, messages * 2 / 5) }
}

extension ExpressibleByArgument where Self: CaseIterable & RawRepresentable<String> {
    /// The cases that a list such as `single,idle` names.
    ///
    /// - Throws: `ValidationError` with the known ones.
    package static func list(_ text: String, of option: String) throws -> [Self] {
        try text.split(separator: ",").map { name in
            guard let part = Self(rawValue: String(name)) else {
                throw ValidationError(
                    "\(option) \(name): known parts are \(allCases.map(\.rawValue).joined(separator: ", "))"
                )
            }
            return part
        }
    }
}
