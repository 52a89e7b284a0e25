import ArgumentParser
import Foundation
import Postgres
import Replaying
import Worker

extension ReplayCommand {
    /// `replay pause`.
    struct Pause: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lets no more of it be sent until it is resumed; what handlers have been given, they handle."
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The replay's name, or its id.")
        var name: String
        @Option(help: "Why, for its history.")
        var reason: String?
        @Flag(help: "Say what would be done.")
        var dryRun = false

        func run() async throws {
            try await ReplayCommand.decide(.pause, name, options, reason, isDryRun: dryRun)
        }
    }

    /// `replay resume`.
    struct Resume: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Lets a paused, or failed, replay go on.")

        @OptionGroup var options: CommonOptions
        @Argument(help: "The replay's name, or its id.")
        var name: String
        @OptionGroup(title: "How fast") var pace: ReplayPaceOptions
        @Option(help: "Why, for its history.")
        var reason: String?
        @Flag(help: "Say what would be done.")
        var dryRun = false

        func run() async throws {
            try await ReplayCommand.decide(.resume, name, options, reason, pace, isDryRun: dryRun)
        }
    }

    /// `replay cancel`.
    struct Cancel: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Ends it for good; what has been sent stays sent."
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The replay's name, or its id.")
        var name: String
        @Option(help: "Why, for its history.")
        var reason: String?
        @Flag(help: "Say what would be done.")
        var dryRun = false

        func run() async throws {
            try await ReplayCommand.decide(.cancel, name, options, reason, isDryRun: dryRun)
        }
    }

    private static func decide(
        _ event: ReplayEvent,
        _ name: String,
        _ options: CommonOptions,
        _ reason: String?,
        _ pace: ReplayPaceOptions? = nil,
        isDryRun: Bool
    ) async throws {
        try await options.withConnection { connection in
            let known = try await find(name, connection)
            if isDryRun { return try tell(known, event) }
            do {
                let (replay, transition) = try await ReplayTable.apply(
                    event,
                    to: known.id,
                    who: who,
                    reason: reason,
                    pace: pace.flatMap { $0.isEmpty ? nil : $0.make(over: known.pace) },
                    over: connection
                )
                let place = "\(Amount.count(replay.done)) of \(Amount.count(replay.planned))"
                let change = transition == .stay ? "is \(replay.state.rawValue) already" : "is \(replay.state.rawValue)"
                Console.message("'\(replay.name)' \(change), at \(place)")
                if event == .resume, replay.state == .running { hint(replay) }
            } catch let error as ReplayError {
                throw CommandFailure(error)
            }
        }
    }

    private static func hint(_ replay: Replay) {
        if case .handlers = replay.target { return }
        Console.message("it runs in a process of its own: \(WorkerProgram.name) replay start \(replay.name)")
    }

    /// `replay status`.
    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists replays, or shows one with its history.",
            discussion: """
                Examples:
                  upstream-worker replay status
                  upstream-worker replay status friday
                  upstream-worker replay status friday --json
                """
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The replay's name, or its id; all without it.")
        var name: String?
        @Option(help: "The most replays to list.")
        var limit = 20
        @Flag(help: "JSON instead of text: an array, or one object for one replay.")
        var json = false

        func run() async throws {
            guard limit > 0 else { throw CommandFailure(.usage, "--limit must be above zero") }
            try await options.withConnection { connection in
                if let name { try await show(name, connection) } else { try await list(connection) }
            }
        }

        private func list(_ connection: PostgresConnection) async throws {
            let limit = limit
            let replays = try await connection.run { connection throws(PostgresError) in
                try ReplayTable.list(connection, limit: limit)
            }
            if json { return try HandlersCommand.printJSON(replays.map { ReplayReport($0) }) }
            let rows = replays.map { replay in
                [
                    replay.name, ReplayReport.state(replay), ReplayReport.share(replay), Amount.count(replay.planned),
                    HandlersCommand.time(replay.createdAt), replay.createdBy, replay.target.description,
                ]
            }
            Console.data(Console.table([["NAME", "STATE", "DONE", "PLANNED", "CREATED", "BY", "TO"]] + rows))
        }

        private func show(_ name: String, _ connection: PostgresConnection) async throws {
            let replay = try await ReplayCommand.find(name, connection)
            let (history, deliveries) = try await connection.run { connection throws(PostgresError) in
                (
                    try ReplayTable.history(connection, of: replay.id),
                    try ReplayTable.deliveries(connection, of: replay)
                )
            }
            if json {
                return try Console.json(ReplayReport(replay, history: history, deliveries: deliveries))
            }
            Console.data(ReplayReport.text(replay, history, deliveries))
        }
    }
}
