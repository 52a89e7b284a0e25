import ArgumentParser
import CCSEmulator
import Foundation
import LocalDatabase
import MessageStore
import Postgres
import Vocabulary
import Worker

struct DevCommand: ProgramCommand {
    static let manual = """
        dev: Runs a private PostgreSQL, the emulator and the worker, with nothing to configure.
          upstream-worker dev                         # until Ctrl-C
          upstream-worker dev --count 2000            # ends when all are acked
          upstream-worker dev --count 2000 --faults   # over faulty connections

        It shows what is received, stored, acked and handled, and at the end the average rate. The sample handler \
        takes one of the two categories, so fewer messages are handled than stored.

        Everything is kept in one folder (.upstream-dev here); delete it to start over.
        """

    static let faultScript = """
        every 40: duplicate
        every 70: redeliver
        every 150: torn
        after 300: drain
        after 600: close-before-ack
        after 900: reset
        after 1100: drain-nack
        after 1300: stall 500ms
        after 1500: whitespace
        after 1600: ping
        """

    @Option(help: "Distinct messages to receive; unlimited by default.") var count: Int?
    @Option(help: "Messages per second. Default: 100, or as many as possible with --count.") var rate: Double?
    @Option(help: "Connections to keep open.") var connections = 3
    @Flag(help: "Inject faults: duplicates, torn writes, draining, cut connections.") var faults = false
    @Option(help: .value("folder", "Folder for the database and other files.")) var folder: String?

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count must be 1 or more") }
        if let rate, rate <= 0 { throw ValidationError("--rate must be above 0") }
        if !(1...1000).contains(connections) { throw ValidationError("--connections must be 1 to 1000") }
    }

    func run(in context: CommandContext) async throws {
        let console = context.console
        let folder = DevFolder(folder)
        try folder.make()
        console.message("starting PostgreSQL in \(folder.url.path)")
        let cluster = try LocalCluster.start(in: folder.url.appending(path: "postgres"))
        defer { cluster.stop() }
        try await migrate(cluster, folder)
        let run = try await DevRun(self, folder: folder, cluster: cluster, context)
        console.message(introduction(run))
        let (isComplete, elapsed) = try await run.run(total: count)
        try await report(run, isComplete: isComplete, elapsed, console)
    }

    private func migrate(_ cluster: LocalCluster, _ folder: DevFolder) async throws {
        let connection = try await PostgresConnection.open(PostgresSettings(url: cluster.url))
        do throws(MigrationError) {
            _ = try await Migrator().up(connection)
        } catch {
            guard case .schema = error else { throw error }
            throw CommandFailure(
                .configuration,
                "the database in \(folder.url.path) has the schema of another version: delete that folder to start over (\(error))"
            )
        }
        await connection.close()
    }

    private func introduction(_ run: DevRun) -> String {
        """
        PostgreSQL is up, the emulator listens on 127.0.0.1:\(run.emulator.port), the worker keeps \
        \(connections) streams.
          look inside   psql '\(run.cluster.url)' -c 'select category, data from upstream.messages limit 5'
          console       \(run.consoleAddress)
                        (signs in once, within 10 minutes)
          metrics       http://127.0.0.1:\(run.adminPort)/metrics
          worker's log  \(run.logPath)
          stop          Ctrl-C

        """
    }

    /// Prints a summary; fails unless everything that was sent is stored once and acked once.
    private func report(_ run: DevRun, isComplete: Bool, _ elapsed: Duration, _ console: Terminal) async throws {
        let tally = await run.emulator.stop()
        let rows = try await run.countRows()
        let status = DevStatus(run.runtime.metrics, before: nil, seconds: 0)
        console.message(status.line)
        console.data(tally.summary)
        console.data("database     \(rows) of \(tally.sent) messages stored, each once")
        console.data("handled      \(status.handled): \(DevStatus.handledBy)")
        console.data("average      \(status.average(over: elapsed))")
        guard let count else { return }
        guard isComplete, tally.isClean, rows == count, tally.sent == count else {
            throw CommandFailure(.negative, "not every message was stored and acked exactly once")
        }
        console.data("all \(count) messages were stored once and acked once")
    }
}
