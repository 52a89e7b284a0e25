import ArgumentParser
import Foundation
import Postgres
import Replaying
import Vocabulary

struct ReplayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Sends stored messages again: to handlers, to a file or stdout, to an XMPP endpoint.",
        discussion: """
            Examples:
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
            """,
        subcommands: [
            ReplayPlanCommand.self, ReplayStart.self, ReplayStatus.self, ReplayPause.self, ReplayResume.self,
            ReplayCancel.self, ReplayImport.self,
        ]
    )

    /// The user and host that run the command.
    static var who: String {
        let user = ProcessInfo.processInfo.environment["SUDO_USER"] ?? NSUserName()
        return "\(user)@\(ProcessInfo.processInfo.hostName)"
    }

    /// Checks a replay's name, which is used in commands.
    static func check(name: String) throws {
        guard ReplayRequest.isName(name) else {
            throw CommandFailure(.usage, "a replay's name is 1-100 letters, digits, '-', '_', '.' or ':'")
        }
    }

    static func find(_ name: String, _ connection: PostgresConnection) async throws -> Replay {
        let found = try await connection.run { connection throws(PostgresError) in
            try ReplayTable.find(connection, name)
        }
        guard let found else {
            throw CommandFailure(.negative, "there is no replay '\(name)': `replay status` lists all")
        }
        return found
    }

    /// Prints what an event would do.
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
}

extension Result where Failure == ReplayError {
    /// The value, or a failure of the command.
    func orFail() throws -> Success {
        do { return try get() } catch { throw CommandFailure(error) }
    }
}

extension CommandFailure {
    /// The exit code of a replay's error.
    init(_ error: ReplayError) {
        let status: ExitStatus =
            switch error.kind {
            case .unknown: .negative
            case .refused: .negative
            case .unavailable: .unavailable
            case .denied: .refused
            case .invalid: .badData
            }
        self.init(status, error.message)
    }
}
