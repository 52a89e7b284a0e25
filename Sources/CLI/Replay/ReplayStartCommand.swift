import ArgumentParser
import Foundation
import Glibc
import Logging
import Postgres
import Replaying
import Vocabulary
import Worker

extension ReplayCommand {
    /// `replay start`.
    struct Start: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Sends what was planned, or goes on with it where it stopped.",
            discussion: """
                Examples:
                  upstream-worker replay start friday                   a worker does it, in the background
                  upstream-worker replay start friday --foreground      this process does it, with a progress bar
                  upstream-worker replay start friday --rate 100/s
                  upstream-worker replay start friday --again           all of it once more, from its first message
                  upstream-worker replay start copy --secret-file /run/secrets/staging --ca-file staging.pem

                Replays to a file or to an XMPP endpoint run in the process that starts them: file, certificate and \
                secret are this machine's. The first SIGINT or SIGTERM pauses the replay.
                """
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The replay's name, or its id.")
        var name: String
        @OptionGroup(title: "How fast") var pace: ReplayPaceOptions
        @OptionGroup(title: "The XMPP endpoint") var endpoint: ReplayEndpointOptions
        @Flag(help: "Run it in this process, also to handlers.")
        var foreground = false
        @Flag(help: "Send everything again, from its first message.")
        var again = false
        @Option(help: "Why, for its history.")
        var reason: String?
        @Flag(help: "Say what would be done.")
        var dryRun = false
        @Flag(help: "One JSON object, at the end, instead of text.")
        var json = false
        @Option(help: ArgumentHelp("How long this process keeps it after its death.", visibility: .hidden))
        var lease: DurationArgument?

        func run() async throws {
            let configuration = try options.load(needsSenders: false).configuration
            let settings = try PostgresSettings(url: configuration.database.url)
            let connection = try await PostgresConnection.open(settings)
            let planned = try await ReplayCommand.find(name, connection)
            let isHere: Bool
            if case .handlers = planned.target { isHere = foreground } else { isHere = true }
            var way: EndpointSettings?
            if case .endpoint(let host, let port, let account) = planned.target {
                way = try endpoint.make(host: host, port: port, account: account, configuration)
            }
            let event = again ? ReplayEvent.startAgain : .start
            guard !dryRun else { return try ReplayCommand.tell(planned, event) }
            let (replay, transition): (Replay, ReplayTransition)
            do {
                (replay, transition) = try await ReplayTable.apply(
                    event,
                    to: planned.id,
                    who: ReplayCommand.who,
                    reason: reason,
                    pace: pace.isEmpty ? nil : pace.make(over: planned.pace),
                    over: connection
                )
            } catch let error as ReplayError {
                throw CommandFailure(error)
            }
            if transition == .stay, replay.state == .finished {
                let done = "all \(Amount.count(replay.planned)) were sent; nothing is sent twice without --again"
                return Console.message("'\(replay.name)' finished \(Self.when(replay.finishedAt)): \(done)")
            }
            guard isHere else {
                await connection.close()
                return Console.message(
                    "'\(replay.name)' runs in a worker; see: \(WorkerProgram.name) replay status \(replay.name)"
                )
            }
            let run = ReplayForeground(replay: replay, settings: settings, lease: lease?.microseconds, way: way)
            let ending = try await run.run(controlling: connection)
            let last = try await ReplayCommand.find(replay.id, connection)
            await connection.close()
            if json { try Console.json(ReplayReport(last)) }
            try Self.conclude(ending, last)
        }

        private static func when(_ time: Int64?) -> String { time.map { "at \(HandlersCommand.time($0))" } ?? "before" }

        private static func conclude(_ ending: ReplayRunner.Ending, _ replay: Replay) throws {
            let progress = "\(Amount.count(replay.done)) of \(Amount.count(replay.planned))"
            switch ending {
            case .finished:
                let skipped = replay.skipped > 0 ? ", \(Amount.count(replay.skipped)) passed over" : ""
                Console.message("'\(replay.name)' finished: \(progress)\(skipped)")
            case .stopped(.paused):
                throw CommandFailure(
                    .temporaryFailure,
                    "paused at \(progress); go on with: \(WorkerProgram.name) replay start \(replay.name)"
                )
            case .stopped(let state): throw CommandFailure(.negative, "'\(replay.name)' is \(state.rawValue)")
            case .held(let owner, _): throw CommandFailure(.negative, "'\(replay.name)' is run by \(owner) already")
            case .lost: throw CommandFailure(.temporaryFailure, "another process has taken over '\(replay.name)'")
            case .released: throw CommandFailure(.temporaryFailure, "stopped at \(progress)")
            case .failed(let kind, let message):
                var failure = CommandFailure(ReplayError(kind, message))
                let command = "\(WorkerProgram.name) replay start \(replay.name)"
                failure.message += "\nstopped at \(progress); go on with: \(command)"
                throw failure
            }
        }
    }

    /// The replay of this name.
    static func find(_ name: String, _ connection: PostgresConnection) async throws -> Replay {
        let found = try await connection.run { connection throws(PostgresError) in
            try ReplayTable.find(connection, name)
        }
        guard let found else {
            throw CommandFailure(.negative, "there is no replay '\(name)': `replay status` lists them")
        }
        return found
    }

    /// Says what an event would do.
    static func tell(_ replay: Replay, _ event: ReplayEvent) throws {
        let rest = Amount.count(replay.planned - replay.done)
        switch replay.state.transition(on: event) {
        case .become(.running):
            Console.message("would send \(rest) of \(Amount.count(replay.planned)) to \(replay.target)")
        case .restart: Console.message("would send all \(Amount.count(replay.planned)) again to \(replay.target)")
        case .become(let state): Console.message("'\(replay.name)' would be \(state.rawValue), with \(rest) not sent")
        case .stay: Console.message("'\(replay.name)' is \(replay.state.rawValue): nothing would change")
        case .refuse(let why):
            throw CommandFailure(.negative, "'\(replay.name)' is \(replay.state.rawValue): \(why)")
        }
    }
}

/// How to reach an XMPP endpoint, where the configuration does not say it.
struct ReplayEndpointOptions: ParsableArguments {
    @Option(help: "File with the account's secret; default: that of the configured sender of the same account.")
    var secretFile: String?
    @Option(help: "Certificates to trust, PEM; default: the system's.")
    var caFile: String?
    @Option(help: "How TLS begins: direct or starttls.")
    var tls: String?
    @Option(help: "The name that the certificate must be for; default: the host.")
    var serverName: String?
    @Option(help: "What SASL is told: jid or localpart.")
    var username: String?
    @Option(help: "How many connections in a row may come to nothing before the replay fails.")
    var attempts: Int?

    /// The settings for an account: the configured sender's, with what the flags say instead.
    func make(
        host: String,
        port: Int,
        account: String,
        _ configuration: WorkerConfiguration
    ) throws -> EndpointSettings {
        let parts = account.split(separator: "@").map(String.init)
        let known = configuration.senders.first { $0.senderID == parts[0] && $0.domain == parts[1] }
        guard let secret = secretFile ?? known?.secretFile.path else {
            throw CommandFailure(
                .usage,
                "no configured sender is \(account): give its secret with --secret-file FILE"
            )
        }
        for (flag, value, allowed) in [
            ("tls", tls, ["direct", "starttls"]), ("username", username, ["jid", "localpart"]),
        ] {
            guard value.map(allowed.contains) ?? true else {
                throw CommandFailure(.usage, "--\(flag) is \(allowed.joined(separator: " or "))")
            }
        }
        var settings = try EndpointSettings.make(
            .init(
                host: host,
                port: port,
                account: parts[0],
                domain: parts[1],
                secret: SecretFile(path: secret),
                caFile: caFile ?? known?.caFile,
                serverName: serverName ?? (known?.host == host ? known?.serverName : nil) ?? host,
                isStartTLS: tls.map { $0 == "starttls" } ?? (known?.tlsMode == .starttls),
                isLocalpart: username.map { $0 == "localpart" } ?? (known?.username == .localpart)
            ),
            configuration
        )
        if let attempts { settings.attempts = max(1, attempts) }
        return settings
    }
}
