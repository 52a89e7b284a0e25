import CCSEmulator
import Console
import Foundation
import LocalDatabase
import Logging
import Telemetry
import UpstreamConfiguration
import Worker

/// The parts of `dev` that run together: emulated server, worker, screen.
struct DevRun {
    let emulator: Emulator
    let runtime: WorkerRuntime
    let logPath: String
    let adminPort: Int
    /// The console's address, with a one-time sign-in link.
    let consoleAddress: String
    let cluster: LocalCluster
    private let console: Terminal
    private let pages: ConsoleRuntime

    private static let senderID = "1234567890"
    /// The category that the sample handler is subscribed to.
    static let handledCategory = "com.example.orders"
    private let screen: DevScreen
    private let idPrefix: String
    private let grace: Duration
    private let logger: Logger

    init(_ command: DevCommand, folder: DevFolder, cluster: LocalCluster, _ context: CommandContext) async throws {
        (console, self.cluster) = (context.console, cluster)
        screen = DevScreen(console)
        let seed = UInt64.random(in: 1 ... .max)
        idPrefix = "dev-" + String(seed, radix: 36)
        let secret = String(UInt64.random(in: .min ... .max), radix: 36)
        var settings = EmulatorConfiguration()
        settings.credentials = .secrets([Self.senderID: secret])
        settings.load = LoadProfile(count: command.count)
        settings.load.rate = command.rate ?? (command.count == nil ? 100 : nil)
        settings.load.idPrefix = idPrefix
        settings.load.seed = seed
        settings.load.receiptShare = 0.02
        settings.load.categories = [
            .init(name: Self.handledCategory, weight: 3), .init(name: "com.example.chat", weight: 1),
        ]
        if command.faults { settings.faults = try FaultScript(parsing: DevCommand.faultScript) }
        emulator = try await Emulator.start(settings)
        let secretPath = try folder.write(secret.utf8, to: "secret")
        let authorityPath = try folder.write(emulator.authorityPEM ?? [], to: "ca.pem")
        adminPort = try FreePort.find()
        let consolePort = try FreePort.find()
        let yaml = """
            # Made by `upstream-worker dev`; try it with `upstream-worker check --config`.
            database: {url: "\(cluster.url)"}
            senders:
              - sender_id: "\(Self.senderID)"
                host: 127.0.0.1
                port: \(emulator.port)
                domain: gcm.googleapis.com
                connections: \(command.connections)
                secret_file: \(secretPath)
                tls: {ca_file: \(authorityPath)}
            handlers:
              - {name: sample, categories: ["\(Self.handledCategory)"], log: {}}
            admin: {listen: "127.0.0.1:\(adminPort)"}
            console: {listen: "127.0.0.1:\(consolePort)"}
            shutdown: {grace: 10s}

            """
        let path = try folder.write(yaml.utf8, to: "worker.yaml")
        // Settings in the environment are meant for another worker.
        let loader = ConfigurationLoader(environment: [:])
        let configuration = try loader.load(file: path, parts: Set(ConfigurationPart.allCases)).configuration
        grace = configuration.shutdownGrace
        logPath = folder.url.appending(path: "worker.log").path
        let output = try FileLogOutput(path: logPath)
        LoggingSystem.bootstrap { LineLogHandler(label: $0, level: .info, format: .json, output: output) }
        logger = Logger(label: "dev")
        runtime = try WorkerRuntime(
            configuration: configuration,
            handlers: try await context.ownHandlers(),
            version: Version.current,
            logger: logger
        )
        pages = try ConsoleRuntime(configuration, version: Version.current, logger: logger)
        let you = Principal(name: "dev", role: .operator_, reveals: true)
        consoleAddress = pages.oneTimeAddress(port: consolePort, for: you)
    }

    /// Runs until `total` messages were acked, or until a signal; tells whether all of them were, and how long it ran.
    func run(total: Int?) async throws -> (isComplete: Bool, elapsed: Duration) {
        let start = ContinuousClock.now
        let isComplete = try await Shutdown.onSignal(grace: grace, logger: logger) {
            try await withThrowingTaskGroup(of: Bool.self) { group in
                group.addTask { await showStatus(total: total) }
                if total != nil { group.addTask { await endWhenComplete() } }
                group.addTask {
                    try await pages.run()
                    return false
                }
                try await runtime.run()
                await pages.shutDown()
                group.cancelAll()
                return try await group.contains(true)
            }
        } begin: {
            screen.stop("stopping: what was received is stored and acked; Ctrl-C again ends at once")
            // What it sends to a stream that ends, nobody would ack.
            await emulator.pause()
            await runtime.shutDown()
        } giveUp: {
            runtime.giveUp()
        }
        return (isComplete, ContinuousClock.now - start)
    }

    func countRows() async throws -> Int {
        try await BenchSite.numbers(cluster.url, DevStatements.stored(idPattern: idPrefix + "%")).first ?? 0
    }

    /// Ends the run once every message was sent and acked; false if it ended earlier.
    private func endWhenComplete() async -> Bool {
        while !Task.isCancelled {
            guard (try? await emulator.waitUntilComplete()) != nil else { continue }
            await runtime.shutDown()
            return true
        }
        return false
    }

    /// Shows the status until cancelled; always false: it completes nothing.
    private func showStatus(total: Int?) async -> Bool {
        let isTerminal = console.errors.isTerminal
        let start = ContinuousClock.now
        var before: DevStatus?
        var last = start
        while (try? await Task.sleep(for: isTerminal ? .milliseconds(250) : .seconds(1))) != nil {
            let now = ContinuousClock.now
            let status = DevStatus(runtime.metrics, before: before, seconds: (now - last) / .seconds(1))
            let elapsed = Int((now - start) / .seconds(1))
            screen.show(isTerminal ? status.screen(elapsed: elapsed, total: total) : [status.line])
            before = status
            last = now
        }
        return false
    }
}
