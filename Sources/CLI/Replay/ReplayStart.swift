import ArgumentParser
import ConfigurationKeys
import Foundation
import Glibc
import Logging
import MessageStore
import Postgres
import Replaying
import Resources
import UpstreamConfiguration
import Vocabulary
import Worker
import XMPP
import XMPPEndpoint

struct ReplayStart: ProgramCommand {
    static let manual = """
        start: Sends what was planned, or continues where it stopped.
          upstream-worker replay start friday                # in a worker
          upstream-worker replay start friday --foreground   # in this process
          upstream-worker replay start friday --rate 100/s
          upstream-worker replay start friday --again        # from its first message
          upstream-worker replay start copy --secret-file /run/secrets/staging \\
            --ca-file staging.pem

        Replays to a file or to an XMPP endpoint run in the process that starts them, with this machine's file, \
        certificate and secret. The first SIGINT or SIGTERM pauses the replay.
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "The replay's name, or its id.") var name: String
    @OptionGroup(title: "How fast") var pace: ReplayPaceOptions
    @OptionGroup(title: "The XMPP endpoint") var endpoint: ReplayEndpointOptions
    @Flag(help: "Run it in this process, even if it goes to handlers.") var foreground = false
    @Flag(help: "Send everything again, from its first message.") var again = false
    @Option(help: "The reason, for its history.") var reason: String?
    @Flag(help: "Only print what would be done.") var dryRun = false
    @Flag(help: "One JSON object, at the end, instead of text.") var json = false
    @Option(help: .unlisted("How long the replay stays reserved after this process has died."))
    var lease: DurationArgument?

    func run(in context: CommandContext) async throws {
        let console = context.console
        let configuration = try options.loadDatabase(context)
        let settings = try PostgresSettings(url: configuration.database.url)
        let connection = try await PostgresConnection.open(settings)
        let planned = try await ReplayCommand.find(name, connection)
        let isHere = foreground || planned.target.kind != "handlers"
        var way: EndpointSettings?
        if case .endpoint(let host, let port, let account) = planned.target {
            // The account may be a sender's, whose secret is used then.
            let senders = try options.load(context, needsSenders: false, parts: [.senders]).configuration
            way = try endpoint.make(host: host, port: port, account: account, senders)
        }
        let event = again ? ReplayEvent.startAgain : .start
        guard !dryRun else { return try ReplayCommand.tell(planned, event, console) }
        let (replay, transition) = try await ReplayCommand.apply(event, to: planned, reason, pace, connection)
        if transition == .stay, replay.state == .finished {
            let done = "all \(Amount.count(replay.planned)) were sent; --again sends them once more"
            if json { console.data(json: Data(replay.json())) }
            return console.message("'\(replay.name)' finished \(Self.when(replay.finishedAt)): \(done)")
        }
        guard isHere else {
            await connection.close()
            let status = context.suggestion("replay status \(replay.name)")
            if json { console.data(json: Data(replay.json())) }
            return console.message("'\(replay.name)' runs in a worker; follow it with: \(status)")
        }
        let run = ReplayForeground(
            replay: replay,
            settings: settings,
            lease: lease?.microseconds,
            way: way,
            context: context
        )
        let ending = try await run.run(controlling: connection)
        let last = try await ReplayCommand.find(replay.id.description, connection)
        await connection.close()
        if json { console.data(json: Data(last.json())) }
        try Self.conclude(ending, last, context)
    }

    private static func when(_ time: Timestamp?) -> String { time.map { "at \($0.shown)" } ?? "before" }

    private static func conclude(_ ending: ReplayRunner.Ending, _ replay: Replay, _ context: CommandContext) throws {
        let resume = context.suggestion("replay start \(replay.name)")
        let progress = "\(Amount.count(replay.done)) of \(Amount.count(replay.planned))"
        switch ending {
        case .finished:
            let skipped = replay.skipped > 0 ? ", \(Amount.count(replay.skipped)) skipped" : ""
            context.console.message("'\(replay.name)' finished: \(progress)\(skipped)")
        case .stopped(.paused):
            throw CommandFailure(.temporaryFailure, "paused at \(progress); continue with: \(resume)")
        case .stopped(let state): throw CommandFailure(.negative, "'\(replay.name)' is \(state.rawValue)")
        case .held(let owner, _): throw CommandFailure(.negative, "'\(replay.name)' is already run by \(owner)")
        case .lost: throw CommandFailure(.temporaryFailure, "another process has taken over '\(replay.name)'")
        case .released: throw CommandFailure(.temporaryFailure, "stopped at \(progress)")
        case .failed(let kind, let message):
            var failure = CommandFailure(ReplayError(kind, message))
            failure.message += "\nstopped at \(progress); continue with: \(resume)"
            throw failure
        }
    }
}

/// The options for an XMPP endpoint that is not in the configuration.
struct ReplayEndpointOptions: ParsableArguments {
    @Option(help: "File with the account's secret; by default that of the configured sender with this account.")
    var secretFile: String?
    @Option(help: "Certificates to trust, PEM; by default the system's.") var caFile: String?
    @Option(help: "How TLS starts: direct or starttls.") var tls: String?
    @Option(help: "The name that the certificate must have; by default the host.") var serverName: String?
    @Option(help: "The user name for SASL: jid or localpart.") var username: String?
    @Option(help: "How many connections in a row may fail before the replay fails.") var attempts: Int?

    /// The settings for an account: the configured sender's, overridden by the flags.
    func make(host: String, port: Int, account: String, _ worker: WorkerConfiguration) throws -> EndpointSettings {
        let parts = account.split(separator: "@").map(String.init)
        let known = worker.senders.first { $0.senderID == parts[0] && $0.domain == parts[1] }
        // A sender with a client certificate may have no secret.
        let knownSecret = known.flatMap { $0.secretFile.path.isEmpty ? nil : $0.secretFile.path }
        guard let secret = secretFile ?? knownSecret else {
            throw CommandFailure(
                .usage,
                "\(account) is not a configured sender with a secret: give its secret with --secret-file FILE"
            )
        }
        for (flag, value, allowed) in [
            ("tls", tls, ["direct", "starttls"]), ("username", username, ["jid", "localpart"]),
        ] {
            guard value.map(allowed.contains) ?? true else {
                throw CommandFailure(.usage, "--\(flag) takes \(allowed.joined(separator: " or "))")
            }
        }
        var stream = StreamSettings(senderID: parts[0], domain: parts[1])
        let isLocalpart = username.map { $0 == "localpart" } ?? (known?.username == .localpart)
        if !isLocalpart { stream.username = stream.address }
        // CCS users sign in with the whole address, and CCS supports only PLAIN.
        stream.allowsPlain = known?.stream.allowsPlain ?? !isLocalpart
        var settings = try EndpointSettings(
            stream,
            host: host,
            port: port,
            secret: SecretFile(path: secret),
            caFile: caFile ?? known?.caFile,
            serverName: serverName ?? (known?.host == host ? known?.serverName : nil) ?? host,
            isStartTLS: tls.map { $0 == "starttls" } ?? (known?.tlsMode == .starttls),
            limits: worker.limits
        )
        if let attempts { settings.attempts = max(1, attempts) }
        return settings
    }
}

/// A replay run by this process: shows its progress, and pauses it at a signal.
struct ReplayForeground {
    let replay: Replay
    let settings: PostgresSettings
    /// In microseconds; nil for the default.
    let lease: Int64?
    let way: EndpointSettings?
    let context: CommandContext

    /// Runs it until it ends; a signal's pause is written over `connection`.
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
                // Refused where it has ended, as the run says.
                _ = try await connection.inTransaction { connection throws(PostgresError) in
                    try ReplayTable.apply(connection, .pause, to: replay.id.description, by: author)
                }
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

/// The rate over the last ten seconds.
struct RateMeter {
    private var points: [(time: ContinuousClock.Instant, count: Int64)] = []

    /// Adds a count and returns the rate per second.
    mutating func add(_ count: Int64, at time: ContinuousClock.Instant) -> Double {
        points.append((time, count))
        while let first = points.first, points.count > 2, time - first.time > .seconds(10) { points.removeFirst() }
        guard let first = points.first, time > first.time else { return 0 }
        return Double(count - first.count) / ((time - first.time) / .seconds(1))
    }
}
