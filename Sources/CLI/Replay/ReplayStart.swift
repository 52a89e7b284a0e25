import ArgumentParser
import Foundation
import Postgres
import Replaying
import Resources
import UpstreamConfiguration
import Vocabulary
import XMPPEndpoint

struct ReplayStart: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "start",
        abstract: "Sends what was planned, or continues where it stopped.",
        discussion: """
            Examples:
              upstream-worker replay start friday                # in a worker
              upstream-worker replay start friday --foreground   # in this process
              upstream-worker replay start friday --rate 100/s
              upstream-worker replay start friday --again        # from its first message
              upstream-worker replay start copy --secret-file /run/secrets/staging \\
                --ca-file staging.pem

            Replays to a file or to an XMPP endpoint run in the process that starts them, with this machine's file, \
            certificate and secret. The first SIGINT or SIGTERM pauses the replay.
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "The replay's name, or its id.")
    var name: String
    @OptionGroup(title: "How fast") var pace: ReplayPaceOptions
    @OptionGroup(title: "The XMPP endpoint") var endpoint: ReplayEndpointOptions
    @Flag(help: "Run it in this process, even if it goes to handlers.")
    var foreground = false
    @Flag(help: "Send everything again, from its first message.")
    var again = false
    @Option(help: "The reason, for its history.")
    var reason: String?
    @Flag(help: "Only print what would be done.")
    var dryRun = false
    @Flag(help: "One JSON object, at the end, instead of text.")
    var json = false
    @Option(help: ArgumentHelp("How long the replay stays reserved after this process has died.", visibility: .hidden))
    var lease: DurationArgument?

    func run(in context: CommandContext) async throws {
        let console = context.console
        let configuration = try options.loadDatabase(context)
        let settings = try PostgresSettings(url: configuration.database.url)
        let connection = try await PostgresConnection.open(settings)
        let planned = try await ReplayCommand.find(name, connection)
        let isHere: Bool
        if case .handlers = planned.target { isHere = foreground } else { isHere = true }
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
            return console.message("'\(replay.name)' finished \(Self.when(replay.finishedAt)): \(done)")
        }
        guard isHere else {
            await connection.close()
            let status = context.suggestion("replay status \(replay.name)")
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

    private static func when(_ time: Timestamp?) -> String { time.map { "at \(ShownTime.short($0))" } ?? "before" }

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
