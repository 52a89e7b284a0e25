import ArgumentParser
import Foundation
import MessageStore
import Postgres
import Replaying
import Resources
import Vocabulary

struct ReplayCommand: DescribedCommand {
    static let manual = """
        replay: Sends stored messages again: to handlers, to a file or stdout, to an XMPP endpoint.
          upstream-worker replay plan friday --category com.example.orders \\
            --since 2026-01-30 --until 2026-01-31 --to-handlers --reason "were refused"
          upstream-worker replay start friday
          upstream-worker replay status friday
          upstream-worker replay plan --handler billing --only-failed --since 7d
          upstream-worker replay plan copy --since 1h --to staging.internal:5235 \\
            --account 1234567890@fcm.internal
          upstream-worker replay start copy --secret-file /run/secrets/staging
          upstream-worker replay import messages.ndjson

        `plan` freezes the selection: messages that arrive later are not part of it. `start` sends it; the process that \
        runs it may crash at any point, and another run continues where it stopped. A replay acks nothing and \
        changes no message.
        """
    static let subcommands: Subcommands = [
        ReplayPlanCommand.self, ReplayStart.self, ReplayStatus.self, ReplayPause.self, ReplayResume.self,
        ReplayCancel.self, ReplayImport.self,
    ]

    /// The user and host that run the command.
    static var who: String {
        let user = ProcessInfo.processInfo.environment["SUDO_USER"] ?? NSUserName()
        return "\(user)@\(ProcessInfo.processInfo.hostName)"
    }

    static func find(_ name: String, _ connection: PostgresConnection) async throws -> Replay {
        guard let found = try await connection.run({ try ReplayTable.find($0, name) }) else {
            throw CommandFailure(.negative, "there is no replay '\(name)': `replay status` lists all")
        }
        return found
    }

    static func tell(_ replay: Replay, _ event: ReplayEvent, _ console: Terminal) throws {
        let rest = Amount.count(replay.planned - replay.done)
        switch replay.state.transition(on: event) {
        case .become(.running):
            console.message("would send \(rest) of \(Amount.count(replay.planned)) to \(replay.target)")
        case .restart: console.message("would send all \(Amount.count(replay.planned)) again to \(replay.target)")
        case .become(let state): console.message("'\(replay.name)' would be \(state.rawValue), with \(rest) not sent")
        case .stay: console.message("'\(replay.name)' is \(replay.state.rawValue): nothing would change")
        case .refuse(let why):
            throw CommandFailure(.negative, "'\(replay.name)' is \(replay.state.rawValue): \(why)")
        }
    }

    /// Applies an event to a replay, with a new pace if one is given.
    static func apply(
        _ event: ReplayEvent,
        to replay: Replay,
        _ reason: String?,
        _ pace: ReplayPaceOptions?,
        _ connection: PostgresConnection
    ) async throws -> (Replay, ReplayTransition) {
        let (id, author) = (replay.id.description, AuditAuthor.command(reason))
        let pace = pace.flatMap { $0.isEmpty ? nil : $0.make(over: replay.pace) }
        return try await connection.inTransaction { connection throws(PostgresError) in
            try ReplayTable.apply(connection, event, to: id, by: author, pace: pace)
        }.get()
    }
}

extension CommandFailure {
    init(_ error: ReplayError) {
        let status: ExitStatus =
            switch error.kind {
            case .unknown, .refused: .negative
            case .unavailable: .unavailable
            case .denied: .refused
            case .invalid: .badData
            }
        self.init(status, error.message)
    }
}

struct ReplayStatus: ProgramCommand {
    static let manual = """
        status: Lists replays, or shows one with its history.
          upstream-worker replay status
          upstream-worker replay status friday
          upstream-worker replay status friday --json
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "The replay's name or id; all replays by default.") var name: String?
    @Option(help: "The most replays to list.") var limit = 20
    @OptionGroup var output: ListOptions

    func run(in context: CommandContext) async throws {
        guard limit > 0 else { throw CommandFailure(.usage, "--limit must be above zero") }
        let list = RowList<Replay>(none: "no replays")
        try output.check(list, context.console)
        guard name == nil || output.isForOne else {
            throw CommandFailure(
                .usage,
                "--csv, --columns and --reverse are for the list; one replay is text, or --json"
            )
        }
        try await options.withConnection(context) { connection in
            if let name { return try await show(name, connection, context.console) }
            let replays = try await connection.run { [limit] in try ReplayTable.list($0, limit: limit) }
            try context.console.show(replays, output, list)
        }
    }

    private func show(_ name: String, _ connection: PostgresConnection, _ console: Terminal) async throws {
        let replay = try await ReplayCommand.find(name, connection)
        let detail = try await connection.run { try ReplayDetail.read($0, replay) }
        if output.format == .json || output.format == .ndjson {
            return console.data(json: Data(detail.json()))
        }
        ReplayReport.show(detail, console)
    }
}

enum ReplayReport {
    static func show(_ detail: ReplayDetail, _ console: Terminal) {
        let replay = detail.replay
        var facts = FactList([("replay", "\(replay.name)  (\(replay.id))")])
        facts.add("state", replay.stateInWords, Tone(state: replay.stateInWords))
        facts.add("to", replay.target.description)
        facts.add("selection", replay.selection)
        let skipped = replay.skipped > 0 ? ", \(Amount.count(replay.skipped)) of them skipped" : ""
        facts.add("done", "\(Amount.count(replay.done)) of \(Amount.count(replay.planned)) (\(replay.share))\(skipped)")
        if case .handlers = replay.target {
            let waiting = Amount.count(detail.waiting)
            facts.add("at handlers", "\(waiting) waiting, \(Amount.count(detail.dead)) dead letters")
        }
        add(replay.pace, to: &facts)
        if let reason = replay.reason { facts.add("reason", reason) }
        if let owner = replay.owner { facts.add("run by", owner) }
        if let rest = rest(replay) { facts.add("left", rest) }
        if let error = replay.lastError { facts.add("error", error) }
        console.facts(facts)
        console.data("")
        let table = TextTable(ReplayTable.HistoryEntry.columns, detail.history.map(\.cells))
        console.show(table, way: "--json has all")
    }

    static func add(_ pace: ReplayPace, to facts: inout FactList) {
        if let rate = pace.rate { facts.add("rate", "\(Amount.decimal(rate))/s at most") }
        if let speed = pace.speed { facts.add("pacing", "original, \(Amount.decimal(speed))x") }
    }

    /// The estimated remaining time, from this run so far.
    private static func rest(_ replay: Replay) -> String? {
        guard replay.state == .running, replay.done > 0, let length = replay.elapsed, length > .zero else { return nil }
        let elapsed = length / .seconds(1)
        return "about " + Amount.time(elapsed / Double(replay.done) * Double(replay.planned - replay.done))
    }
}

struct ReplayPause: ProgramCommand {
    static let manual = """
        pause: Stops sending until it is resumed; deliveries that handlers already have are not affected.
          upstream-worker replay pause friday
          upstream-worker replay pause friday --reason "too much load"
        """

    @OptionGroup var control: ReplayControlOptions

    func run(in context: CommandContext) async throws {
        try await control.apply(.pause, in: context)
    }
}

struct ReplayResume: ProgramCommand {
    static let manual = """
        resume: Resumes a paused or failed replay.
          upstream-worker replay resume friday
          upstream-worker replay resume friday --rate 50/s
        """

    @OptionGroup var control: ReplayControlOptions
    @OptionGroup(title: "How fast") var pace: ReplayPaceOptions

    func run(in context: CommandContext) async throws {
        try await control.apply(.resume, in: context, pace)
    }
}

struct ReplayCancel: ProgramCommand {
    static let manual = """
        cancel: Cancels a replay for good; what was sent stays sent.
          upstream-worker replay cancel friday
        """

    @OptionGroup var control: ReplayControlOptions

    func run(in context: CommandContext) async throws {
        try await control.apply(.cancel, in: context)
    }
}

/// The options of the commands that change a replay's state.
struct ReplayControlOptions: ParsableArguments {
    @OptionGroup var options: CommonOptions
    @Argument(help: "The replay's name or id.") var name: String
    @Option(help: "The reason, for its history.") var reason: String?
    @Flag(help: "Only print what would be done.") var dryRun = false

    func apply(_ event: ReplayEvent, in context: CommandContext, _ pace: ReplayPaceOptions? = nil) async throws {
        let console = context.console
        try await options.withConnection(context) { connection in
            let known = try await ReplayCommand.find(name, connection)
            if dryRun { return try ReplayCommand.tell(known, event, console) }
            let (replay, transition) = try await ReplayCommand.apply(event, to: known, reason, pace, connection)
            let place = "\(Amount.count(replay.done)) of \(Amount.count(replay.planned))"
            let change = transition == .stay ? "is already \(replay.state.rawValue)" : "is \(replay.state.rawValue)"
            console.message("'\(replay.name)' \(change), at \(place)")
            guard event == .resume, replay.state == .running else { return }
            if case .handlers = replay.target { return }
            console.message("run it in a process of its own: \(context.suggestion("replay start \(replay.name)"))")
        }
    }
}
