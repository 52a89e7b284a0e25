import ArgumentParser
import MessageStore
import Postgres
import Replaying
import Vocabulary

/// The options of the commands that change a replay's state.
struct ReplayControlOptions: ParsableArguments {
    @OptionGroup var options: CommonOptions
    @Argument(help: "The replay's name or id.")
    var name: String
    @Option(help: "The reason, for its history.")
    var reason: String?
    @Flag(help: "Only print what would be done.")
    var dryRun = false

    /// Applies an event to the replay, or prints what it would do.
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

extension ReplayCommand {
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
        }.orFail()
    }
}
