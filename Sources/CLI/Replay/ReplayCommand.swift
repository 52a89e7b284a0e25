import ArgumentParser
import Foundation
import Postgres
import Replaying
import Worker

/// `replay`: stored messages, sent again.
struct ReplayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Sends stored messages again: to handlers, to a file or stdout, to an XMPP endpoint.",
        discussion: """
            Examples:
              upstream-worker replay plan friday --category com.example.orders --since 2026-01-30 --until 2026-01-31 \
            --to-handlers --reason "orders were refused"
              upstream-worker replay start friday
              upstream-worker replay status friday
              upstream-worker replay plan --handler billing --only-failed --since 7d
              upstream-worker replay plan copy --since 1h --to staging.internal:5235 --account 1234567890@fcm.internal
              upstream-worker replay start copy --secret-file /run/secrets/staging
              upstream-worker replay import messages.ndjson

            `plan` freezes the selection: what arrives later never joins in. `start` sends it; whoever runs it may die at \
            any point, and another run goes on where it stopped. A replay acks nothing and changes no message.
            """,
        subcommands: [
            Plan.self, Start.self, Status.self, Pause.self, Resume.self, Cancel.self, Import.self,
        ]
    )

    /// Who gives the command: user and host.
    static var who: String {
        let user = ProcessInfo.processInfo.environment["SUDO_USER"] ?? NSUserName()
        return "\(user)@\(ProcessInfo.processInfo.hostName)"
    }

    /// The names of replays: they stand in commands.
    static func check(name: String) throws {
        let isPlain = name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-_.:".contains($0)) }
        guard isPlain, !name.isEmpty, name.utf8.count <= 100, !name.hasPrefix("-") else {
            throw CommandFailure(.usage, "a replay's name has 1-100 letters, digits, '-', '_', '.' or ':'")
        }
    }
}

extension CommandFailure {
    /// What an error of a replay means.
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

/// How fast a replay sends.
struct ReplayPaceOptions: ParsableArguments {
    @Option(help: ArgumentHelp("At most so many messages a second, for example 100/s.", valueName: "n/s"))
    var rate: RateArgument?
    @Option(
        help: ArgumentHelp(
            "Original pacing, so many times as fast as they came, for example 1x or 10x.",
            valueName: "nx"
        )
    )
    var speed: SpeedArgument?
    @Option(
        help: "The most under way: deliveries that wait for handlers (default 1000), or unacked messages (default 100)."
    )
    var concurrency: Int?

    func validate() throws {
        if let concurrency, !(1...100_000).contains(concurrency) {
            throw ValidationError("--concurrency is 1 to 100000")
        }
    }

    /// Whether anything is set.
    var isEmpty: Bool { rate == nil && speed == nil && concurrency == nil }

    /// The pace, with what is not set as it was.
    func make(over pace: ReplayPace = ReplayPace()) -> ReplayPace {
        ReplayPace(
            rate: rate?.value ?? pace.rate,
            speed: speed?.value ?? pace.speed,
            concurrency: concurrency ?? pace.concurrency
        )
    }
}

/// `100/s`, `0.5/s`, `100`.
struct RateArgument: ExpressibleByArgument {
    let value: Double

    init?(argument: String) {
        let number = argument.hasSuffix("/s") ? String(argument.dropLast(2)) : argument
        guard let value = Double(number), value.isFinite, value >= 0.001, value <= 1e9 else { return nil }
        self.value = value
    }
}

/// `1x`, `10x`, `0.5x`.
struct SpeedArgument: ExpressibleByArgument {
    let value: Double

    init?(argument: String) {
        let number = argument.hasSuffix("x") ? String(argument.dropLast()) : argument
        guard let value = Double(number), value.isFinite, value >= 0.001, value <= 1e9 else { return nil }
        self.value = value
    }
}
