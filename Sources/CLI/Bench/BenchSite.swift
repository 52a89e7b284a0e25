package import CCSEmulator
package import Foundation
import Glibc
import LocalDatabase
import MessageStore
package import Postgres
import Vocabulary

/// The environment of a run: a temporary folder with a PostgreSQL server.
package final class BenchSite: Sendable {
    package static let senderID = "1234567890"

    package var postgres: Int32 { cluster.processID ?? 0 }
    private let cluster: LocalCluster
    private let folder: DevFolder
    private let worker: URL

    private init(worker: URL) throws {
        self.worker = worker
        let name = "upstream-bench-\(getpid())"
        folder = DevFolder(FileManager.default.temporaryDirectory.appending(path: name).path)
        try folder.make()
        var options = LocalCluster.Options()
        options.isTemporary = true
        do {
            cluster = try LocalCluster.start(in: folder.url.appending(path: "postgres"), options)
        } catch {
            try? FileManager.default.removeItem(at: folder.url)
            throw error
        }
    }

    /// Runs `body` at a new site and leaves nothing of it behind; an interruption cancels `body`.
    package static func with<T: Sendable>(
        worker: URL,
        _ console: Terminal,
        until interruption: @escaping @Sendable () async -> Void = { await Shutdown.signalled() },
        _ body: @escaping @Sendable (BenchSite) async throws -> T
    ) async throws -> T {
        let result = try await withThrowingTaskGroup(of: T?.self) { group in
            group.addTask {
                do {
                    console.message("bench: PostgreSQL in a temporary folder")
                    let site = try BenchSite(worker: worker)
                    defer { site.close() }
                    return try await body(site)
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
        guard let result else { throw CommandFailure(.negative, "interrupted; all temporary files were removed") }
        return result
    }

    private func close() {
        cluster.stop()
        try? FileManager.default.removeItem(at: folder.url)
    }

    // MARK: Databases

    /// Creates a database with the schema, and returns its URL.
    ///
    /// A checkpoint flushes the writes of earlier databases, so that they don't fall into the next measurement.
    package func makeDatabase(_ name: String = "bench") async throws -> String {
        try await Self.run(cluster.url, BenchStatements.create(name))
        let url = cluster.url.replacing("///upstream?", with: "///\(name)?")
        let connection = try await PostgresConnection.open(PostgresSettings(url: url))
        _ = try await Migrator().up(connection)
        await connection.close()
        try await Self.run(cluster.url, BenchStatements.checkpoint)
        return url
    }

    package func dropDatabase(_ name: String = "bench") async throws {
        try await Self.run(cluster.url, BenchStatements.drop(name))
    }

    /// Creates a database with `count` messages that wait for a handler named `everything`, and returns its URL.
    package func makeBacklog(_ count: Int) async throws -> String {
        let database = try await makeDatabase()
        try await Self.run(database, BenchStatements.backlog(count, sender: Self.senderID))
        try await Self.run(cluster.url, BenchStatements.checkpoint)
        return database
    }

    /// The number of pending deliveries.
    package static func waiting(_ database: String) async throws -> Int {
        try await numbers(database, BenchStatements.waiting).first ?? 0
    }

    /// The number of rows that each transaction inserted, in order.
    package static func batchSizes(_ database: String) async throws -> [Int] {
        try await numbers(database, BenchStatements.batchSizes)
    }

    static func run(_ url: String, _ sql: String) async throws {
        let connection = try await PostgresConnection.open(PostgresSettings(url: url))
        try await connection.run { try $0.script(sql) }
        await connection.close()
    }

    /// Reads a query's single column of numbers, on its own connection.
    package static func numbers(_ url: String, _ statement: SQL) async throws -> [Int] {
        let connection = try await PostgresConnection.open(PostgresSettings(url: url))
        let numbers = try await connection.result(of: statement).rows(as: Int.self)
        await connection.close()
        return numbers
    }

    // MARK: Processes

    /// Runs `body` with a worker at an emulator, over a database of its own, and adds what is wrong with the acks.
    ///
    /// `handlers` is YAML.
    package func measure<T>(
        _ settings: EmulatorConfiguration,
        handlers: String = "",
        _ plan: BenchPlan,
        _ problems: inout [String],
        _ body: (BenchPair, _ database: String) async throws -> T
    ) async throws -> T {
        let database = try await makeDatabase()
        let pair = try await BenchPair(settings, database, at: self, handlers: handlers, plan)
        let value = try await pair.stopping { try await body(pair, database) }
        problems += pair.problems
        try await dropDatabase()
        return value
    }

    /// Starts a worker that only dispatches stored messages; `handlers` is YAML.
    package func startDispatcher(database: String, handlers: String) throws -> WorkerProcess {
        let yaml = """
            database: {url: "\(database)"}
            handlers:
            \(handlers)
            admin: {listen: "off"}
            log: {format: json}

            """
        let configuration = try write(yaml, to: "dispatcher.yaml")
        return try start(worker, ["run", "--config", configuration, "--roles", "dispatch"], log: "dispatcher.log")
    }

    func startWorker(
        _ emulator: Emulator,
        database: String,
        settings: EmulatorConfiguration,
        handlers: String,
        _ plan: BenchPlan
    ) throws -> WorkerProcess {
        let (secret, authority) = try credentials(emulator)
        let yaml = """
            database: {url: "\(database)", writers: \(plan.writers)}
            senders:
              - sender_id: "\(Self.senderID)"
                host: 127.0.0.1
                port: \(emulator.port)
                domain: gcm.googleapis.com
                connections: \(settings.load.connections)
                window: \(plan.window)
                secret_file: \(secret)
                tls: {ca_file: \(authority)}
            \(handlers.isEmpty ? "" : "handlers:\n" + handlers)
            admin: {listen: "off"}
            log: {format: json}

            """
        return try start(worker, ["run", "--config", try write(yaml, to: "worker.yaml")], log: "worker.log")
    }

    /// Starts a program whose stderr goes to a file of the run.
    package func start(_ program: URL, _ arguments: [String], log: String) throws -> WorkerProcess {
        try WorkerProcess(program: program, arguments, log: folder.url.appending(path: log))
    }

    package func credentials(_ emulator: Emulator) throws -> (secret: String, authority: String) {
        (try write("secret", to: "secret"), try folder.write(emulator.authorityPEM ?? [], to: "ca.pem"))
    }

    func write(_ text: String, to name: String) throws -> String { try folder.write(text.utf8, to: name) }
}

/// A worker in a process of its own, whose stderr goes to a file.
package final class WorkerProcess: Sendable {
    private let process = Process()
    private let log: URL

    package var id: Int32 { process.processIdentifier }

    init(program: URL, _ arguments: [String], log: URL) throws {
        self.log = log
        process.executableURL = program
        process.arguments = arguments
        // Settings in the environment are meant for another worker.
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("UPSTREAM_") }
        _ = FileManager.default.createFile(atPath: log.path, contents: nil)
        process.standardError = try FileHandle(forWritingTo: log)
        process.standardInput = FileHandle.nullDevice
        try process.run()
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }

    /// Fails if the worker has ended by itself.
    package func check() throws {
        guard !process.isRunning else { return }
        let text = (try? String(contentsOf: log, encoding: .utf8)) ?? ""
        let lines = text.split(separator: "\n").suffix(5).joined(separator: "\n")
        throw CommandFailure(.internalError, "the worker ended with \(process.terminationStatus):\n\(lines)")
    }

    /// Terminates it, and kills it after ten seconds.
    package func stop() {
        guard process.isRunning else { return }
        process.terminate()
        let deadline = ContinuousClock.now + .seconds(10)
        while process.isRunning, ContinuousClock.now < deadline { usleep(10_000) }
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        process.waitUntilExit()
    }
}

/// Resources used by processes, from /proc.
package enum ProcessUsage {
    /// CPU seconds in user and kernel mode; exact to the kernel's tick, mostly 10 ms.
    package static func cpu(of id: Int32) -> Double { row(id)?.own ?? 0 }

    /// The same of a process and its children, including those that have ended and been waited for.
    package static func cpu(ofFamily id: Int32) -> Double {
        guard let first = row(id) else { return 0 }
        var cpu = first.own + first.reaped
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        for name in names {
            guard let child = Int32(name), child != id, let row = row(child), row.parent == id else { continue }
            cpu += row.own
        }
        return cpu
    }

    /// Bytes of resident memory: now (`VmRSS`) and at most (`VmHWM`).
    package static func memory(_ id: Int32) -> (now: Int, most: Int) {
        let text = (try? String(contentsOfFile: "/proc/\(id)/status", encoding: .utf8)) ?? ""
        func kilobytes(_ key: String) -> Int {
            guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(key + ":") }) else { return 0 }
            return line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap { Int($0) } ?? 0
        }
        return (kilobytes("VmRSS") * 1024, kilobytes("VmHWM") * 1024)
    }

    package static var load: Double {
        let text = (try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8)) ?? ""
        return text.split(separator: " ").first.flatMap { Double($0) } ?? 0
    }

    private static func row(_ id: Int32) -> (parent: Int32, own: Double, reaped: Double)? {
        // The second field is the program's name in parentheses, which may hold anything.
        guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
            let end = text.lastIndex(of: ")")
        else { return nil }
        let fields = text[text.index(after: end)...].split(separator: " ")
        guard fields.count > 14, let parent = Int32(fields[1]) else { return nil }
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        func seconds(_ index: Int) -> Double { (Double(fields[index]) ?? 0) / ticks }
        return (parent, seconds(11) + seconds(12), seconds(13) + seconds(14))
    }
}
