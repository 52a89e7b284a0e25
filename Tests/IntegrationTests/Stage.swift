import CCSEmulator
import Foundation
import IntegrationSupport
import LocalDatabase
import Logging
import NIOCore
import Telemetry
import UpstreamConfiguration
import Vocabulary
import Worker

/// What a worker is told, beyond where its peers are.
struct WorkerOptions: Sendable {
    var connections = 2
    var window = 100
    var mode = "direct"
    /// Another way to the database than the stage's own.
    var database: String?
    /// Another place to connect to than the emulator.
    var port: Int?
    /// Another authority to trust.
    var authorityPEM: [UInt8]?
    var secret = Stage.secret
    var grace = "25s"
    /// The lines of the list of handlers, without indentation; empty for none.
    var handlers = ""
    /// How long a lease holds.
    var lease = "60s"
    /// The section `tracing`; empty for none.
    var tracing = ""
    /// When the peer is asked whether it hears us.
    var keepalive = "{interval: 30s, timeout: 15s}"
    /// Within what a message id is unique.
    var idScope = "sender"
}

/// An emulator and a database, for workers to stand between.
final class Stage: Sendable {
    static let sender = "1234567890"
    static let secret = "FAKE-SECRET-never-in-a-log"
    static let address = StanzaAddress(from: "devices@gcm.googleapis.com", to: "\(sender)@gcm.googleapis.com")

    let folder: TemporaryFolder
    let database: Database
    let emulator: Emulator
    let load: LoadProfile

    private init(folder: TemporaryFolder, database: Database, emulator: Emulator, load: LoadProfile) {
        self.folder = folder
        self.database = database
        self.emulator = emulator
        self.load = load
    }

    /// Runs a test on a stage of its own.
    static func run(
        on database: Database? = nil,
        _ configure: (inout EmulatorConfiguration) throws -> Void = { _ in },
        _ body: (Stage) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        var configuration = EmulatorConfiguration()
        configuration.credentials = .secrets([sender: secret])
        configuration.transcript = folder.url.appending(path: "transcript.jsonl").path
        try configure(&configuration)
        let own = if let database { database } else { try await Database() }
        let stage = Stage(
            folder: folder,
            database: own,
            emulator: try await Emulator.start(configuration),
            load: configuration.load
        )
        do {
            try await body(stage)
        } catch {
            let tally = await stage.emulator.stop()
            FileHandle.standardError.write(Data("the emulator's account:\n\(tally.summary)\n".utf8))
            throw error
        }
        await stage.emulator.stop()
    }

    /// Runs a test on a stage whose database server is its own, to be stopped or killed.
    static func runOnOwnServer(
        _ configure: (inout EmulatorConfiguration) throws -> Void = { _ in },
        _ body: (Stage, LocalCluster) async throws -> Void
    ) async throws {
        var options = LocalCluster.Options()
        options.isTemporary = true
        let folder = URL(filePath: "/tmp/upstream-it-own-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        let cluster = try LocalCluster.start(in: folder, options)
        defer { cluster.stop() }
        try await run(on: try await Database(on: cluster), configure) { try await body($0, cluster) }
    }

    /// Waits for something that the emulator sees.
    func wait(for what: String, until condition: @escaping @Sendable (EmulatorSnapshot) -> Bool) async throws {
        try await emulator.wait(for: what, limit: .seconds(180), until: condition)
    }

    /// Waits until every message was sent and every copy acked.
    func waitUntilComplete() async throws {
        try await emulator.waitUntilComplete(limit: .seconds(180))
    }

    /// Makes the load's messages, as the emulator does.
    var generator: LoadGenerator { LoadGenerator(profile: load, address: Stage.address) }

    /// What the emulator wrote down so far: one JSON object a line.
    func transcript() throws -> String {
        try String(contentsOf: folder.url.appending(path: "transcript.jsonl"), encoding: .utf8)
    }

    /// A configuration as people write it.
    func yaml(_ options: WorkerOptions) throws -> String {
        let secret = try folder.write(options.secret.utf8, as: "server-key")
        let tag = UInt32.random(in: 0...UInt32.max)
        let authority = try folder.write(options.authorityPEM ?? emulator.authorityPEM ?? [], as: "ca-\(tag).pem")
        let trust = options.authorityPEM == nil && emulator.authorityPEM == nil ? "" : ", ca_file: \(authority)"
        return """
            database:
              url: "\(options.database ?? database.url)"
            senders:
              - sender_id: "\(Stage.sender)"
                host: 127.0.0.1
                port: \(options.port ?? emulator.port)
                domain: gcm.googleapis.com
                connections: \(options.connections)
                window: \(options.window)
                id_scope: \(options.idScope)
                secret_file: \(secret)
                tls: {mode: \(options.mode)\(trust)}
                keepalive: \(options.keepalive)
            \(options.handlers.isEmpty ? "" : "handlers:\n" + options.handlers)
            dispatch: {lease: \(options.lease)}
            shutdown: {grace: \(options.grace)}
            admin: {listen: "127.0.0.1:0"}
            log: {level: debug, format: json}
            \(options.tracing.isEmpty ? "" : "tracing: " + options.tracing)

            """
    }

    /// Runs a worker inside this process for as long as `body` takes, and ends it in order.
    func withWorker(
        _ options: WorkerOptions = WorkerOptions(),
        _ body: (LocalWorker) async throws -> Void
    ) async throws {
        let worker = try LocalWorker(yaml: try yaml(options))
        do {
            try await body(worker)
        } catch {
            await worker.abandon()
            let lines = worker.logs.lines.suffix(15).joined()
            FileHandle.standardError.write(Data("the worker's last words:\n\(lines)".utf8))
            throw error
        }
        try await worker.stop()
    }
}

/// A worker inside this process.
final class LocalWorker: Sendable {
    let runtime: WorkerRuntime
    let logs = MemoryLogOutput()
    private let task: Task<Void, any Error>
    private let listening: ListeningPort

    /// Starts one.
    init(yaml: String) throws {
        let configuration = try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "test.yaml").configuration
        let logs = logs
        let logger = Logger(label: "upstream-worker") {
            LineLogHandler(label: $0, level: .debug, format: .json, output: logs)
        }
        let listening = ListeningPort()
        let runtime = try WorkerRuntime(
            configuration: configuration,
            version: "test",
            logger: logger,
            onListening: { listening.port.set($0) }
        )
        self.runtime = runtime
        self.listening = listening
        task = Task { try await runtime.run() }
    }

    private final class ListeningPort: Sendable {
        let port = Gauge()
    }

    var metrics: Metrics { runtime.metrics }

    func settled(_ outcome: StoreOutcome) -> Int { Int(metrics.messages.snapshot().settled(outcome)) }

    var inFlight: Int { metrics.messages.snapshot().inFlight }

    /// Whether it is bound and has been logged in: a stream that fetches what is stored before that counts as bound, too.
    var isLoggedIn: Bool {
        metrics.connections(sender: 0, state: .bound).value == 1
            && logs.lines.contains { $0.contains("\"stream.bound\"") }
    }

    /// What `/metrics` shows over HTTP.
    func scrape() async throws -> Exposition {
        try await waitUntil("the admin endpoints listen") { listening.port.value != 0 }
        return try await Exposition.fetch(port: listening.port.value)
    }

    /// Ends it in order; it must not take for ever.
    func stop() async throws {
        try await withLimit(.seconds(180), "the worker ends") {
            await self.runtime.shutDown()
            try await self.task.value
        } onLimit: {
            self.task.cancel()
        }
    }

    /// Ends it after a failure.
    func abandon() async {
        task.cancel()
        _ = await task.result
    }
}
