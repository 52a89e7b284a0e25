import ArgumentParser
import Foundation
import MessageStore
import Postgres
import Telemetry
import Vocabulary
import Worker

/// `handlers`: what they are subscribed to, what waits for them, and pausing.
struct HandlersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "handlers",
        abstract: "Shows the handlers with what waits for them; pauses and resumes them in every worker.",
        discussion: """
            Examples:
              upstream-worker handlers list
              upstream-worker handlers pause billing --for 30m --reason "billing is being moved"
              upstream-worker handlers resume billing
              upstream-worker handlers remove legacy       no worker runs it any more; what waits for it is deleted
            """,
        subcommands: [List.self, Pause.self, Resume.self, Remove.self]
    )

    /// Prints values as one JSON array.
    static func printJSON(_ rows: [some Encodable]) throws {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        Console.data(json: try encoder.encode(rows))
    }

    /// A time as people and programs read it.
    static func time(_ microseconds: Int64) -> String { Timestamp(microseconds: microseconds).rfc3339 }
}

extension HandlersCommand {
    /// `handlers list`.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows every registered handler; counts stop at 100000.",
            discussion: """
                Examples:
                  upstream-worker handlers list
                  upstream-worker handlers list --json | jq '.[] | select(.is_claimed | not)'

                unclaimed: no worker has run it for two minutes; its messages wait. Configure it, or `handlers remove` it.
                A handler gets every category that one of its workers asks for. A worker that was stopped asks for nothing \
                any more, one that died until it has been silent for ten minutes.
                """
        )

        @OptionGroup var options: CommonOptions
        @Flag(help: "One JSON array instead of a table.")
        var json = false

        private struct Row: Encodable {
            var handler: String
            var state: String
            var isClaimed: Bool
            var seenAt: String
            var pausedUntil: String?
            var pausedReason: String?
            var waiting: Int
            var oldestAgeSeconds: Double?
            var deadLetters: Int
            var categories: [String]
            var workers: [Worker]
        }

        private struct Worker: Encodable {
            var worker: String
            var categories: [String]
            var byDevice: Bool
            var seenAt: String
            var isLive: Bool

            init(_ worker: HandlerWorker) {
                self.worker = worker.worker
                categories = worker.categories
                byDevice = worker.isByDevice
                seenAt = HandlersCommand.time(worker.seenAt)
                isLive = worker.isLive
            }
        }

        func run() async throws {
            let rows = try await options.withConnection { try await HandlerStates($0).list() }
                .map { handler in
                    Row(
                        handler: handler.name,
                        state: handler.isPaused ? "paused" : handler.isClaimed ? "active" : "unclaimed",
                        isClaimed: handler.isClaimed,
                        seenAt: HandlersCommand.time(handler.seenAt),
                        pausedUntil: handler.pausedUntil.map(HandlersCommand.time),
                        pausedReason: handler.pausedReason,
                        waiting: handler.depth,
                        oldestAgeSeconds: handler.oldestAge.map { max(0, Double($0) / 1e6) },
                        deadLetters: handler.deadLetters,
                        categories: handler.categories,
                        workers: handler.workers.map(Worker.init)
                    )
                }
            if json { return try HandlersCommand.printJSON(rows) }
            let cells = rows.map { row in
                [
                    row.handler,
                    row.state + (row.pausedUntil.map { " until \($0)" } ?? ""),
                    String(row.waiting),
                    row.oldestAgeSeconds.map { "\(Int($0))s" } ?? "-",
                    String(row.deadLetters),
                    row.categories.joined(separator: ",") + (row.pausedReason.map { "  (\($0))" } ?? ""),
                ]
            }
            let head = ["HANDLER", "STATE", "WAITING", "OLDEST", "DEAD", "CATEGORIES"]
            Console.data(Console.table([head] + cells))
            let asking = rows.flatMap { row in
                row.workers.map { worker in
                    [
                        row.handler, worker.worker,
                        worker.categories.joined(separator: ",") + (worker.byDevice ? "  (by device)" : ""),
                        worker.seenAt + (worker.isLive ? "" : "  (silent)"),
                    ]
                }
            }
            guard !asking.isEmpty else { return }
            Console.data("\n" + Console.table([["HANDLER", "ASKED FOR BY", "CATEGORIES", "LAST SEEN"]] + asking))
        }
    }

    /// `handlers pause`.
    struct Pause: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lets no attempt of a handler begin any more, in any worker; its messages wait."
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The handler's name.")
        var handler: String
        @Option(name: .customLong("for"), help: "How long, for example 30m; without it, until it is resumed.")
        var length: DurationArgument?
        @Option(help: "Why, for whoever looks at the list.")
        var reason: String?

        func run() async throws {
            let pause = try await options.withConnection {
                try await HandlerStates($0).pause(handler, for: length?.microseconds, reason: reason)
            }
            guard let pause else { throw CommandFailure(.negative, "no handler is registered under this name") }
            Console.message("paused \(handler)" + (pause.until.map { " until \(HandlersCommand.time($0))" } ?? ""))
        }
    }

    /// `handlers resume`.
    struct Resume: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Lets a paused handler go on.")

        @OptionGroup var options: CommonOptions
        @Argument(help: "The handler's name.")
        var handler: String

        func run() async throws {
            let isKnown = try await options.withConnection {
                try await HandlerStates($0).resume(handler)
            }
            guard isKnown else { throw CommandFailure(.negative, "no handler is registered under this name") }
            Console.message("resumed \(handler)")
        }
    }
}

/// A duration as the configuration writes it: `250ms`, `30s`, `15m`, `12h`, `30d`.
struct DurationArgument: ExpressibleByArgument {
    /// Whole microseconds, at least 1.
    let microseconds: Int64

    /// A default of so many seconds.
    init(seconds: Int64) { microseconds = seconds * 1_000_000 }

    var defaultValueDescription: String { "\(microseconds / 1_000_000)s" }

    init?(argument: String) {
        // A hundred years is more than anybody means.
        guard let text = DurationText(argument), text.count > 0, text.unit != .weeks, let duration = text.duration,
            duration <= .seconds(36_525 * 86_400)
        else { return nil }
        microseconds = duration.microseconds
    }
}
