import ArgumentParser
import MessageStore
import Postgres
import UpstreamKit
import Vocabulary
import Worker

/// `dead`: deliveries that were given up.
struct DeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead",
        abstract: "Shows dead letters; gives them back to their handlers, or discards them.",
        discussion: """
            Examples:
              upstream-worker dead groups
              upstream-worker dead list --handler billing --since 1h
              upstream-worker dead show 7d1c0a52-0000-4000-8000-000000000001
              upstream-worker dead retry --handler billing --group "webhook status 503"
              upstream-worker dead discard --handler legacy --yes
            """,
        subcommands: [List.self, Show.self, Groups.self, Retry.self, Discard.self]
    )

    /// The filters that the commands share.
    struct Filter: ParsableArguments {
        @Option(help: "Only this handler's.")
        var handler: String?
        @Option(help: "Only this error group, as `dead groups` shows it.")
        var group: String?
        @Option(help: "Only messages of this category.")
        var category: String?
        @Option(help: "Only one message: its message_key.")
        var message: String?
        @Option(help: "Only what was given up within this time, for example 1h.")
        var since: DurationArgument?
        @Option(help: "Only what was given up longer ago than this, for example 1d.")
        var before: DurationArgument?

        /// The store's form.
        func make() throws -> DeadLetterFilter {
            var filter = DeadLetterFilter()
            filter.handler = handler
            filter.group = group
            filter.category = category
            filter.age = since?.microseconds
            filter.minimumAge = before?.microseconds
            if let message {
                guard let key = MessageKey(message) else {
                    throw CommandFailure(.usage, "--message takes a message_key: 8-4-4-4-12 hex digits")
                }
                filter.messageKey = key
            }
            return filter
        }

        /// Whether it narrows at all.
        var isEmpty: Bool {
            handler == nil && group == nil && category == nil && message == nil && since == nil && before == nil
        }
    }

    fileprivate struct Row: Encodable {
        var handler: String
        var messageKey: String
        var category: String?
        var receivedAt: String
        var diedAt: String
        var attempts: Int
        var errorGroup: String
        var error: String

        init(_ letter: DeadLetter) {
            handler = letter.handler
            messageKey = letter.messageKey.description
            category = letter.category
            receivedAt = HandlersCommand.time(letter.receivedAt)
            diedAt = HandlersCommand.time(letter.diedAt)
            attempts = letter.attempts
            errorGroup = letter.group
            error = letter.error
        }
    }
}

extension DeadCommand {
    /// `dead list`.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Shows dead letters, the latest first.")

        @OptionGroup var options: CommonOptions
        @OptionGroup var filter: Filter
        @Option(help: "The most rows to show.")
        var limit = 50
        @Flag(help: "One JSON array instead of a table.")
        var json = false

        func run() async throws {
            guard limit > 0 else { throw CommandFailure(.usage, "--limit must be above zero") }
            let filter = try filter.make()
            let rows = try await options.withConnection { connection in
                let letters = DeadLetters(connection)
                return try await letters.list(letters.judge(filter), limit: limit)
            }.map(Row.init)
            if json { return try HandlersCommand.printJSON(rows) }
            let cells = rows.map {
                [$0.diedAt, $0.handler, $0.messageKey, $0.category ?? "-", String($0.attempts), $0.errorGroup]
            }
            let head = ["DIED", "HANDLER", "MESSAGE", "CATEGORY", "ATTEMPTS", "ERROR GROUP"]
            Console.data(Console.table([head] + cells))
        }
    }

    /// `dead show`.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows one message's dead letters with the whole error; exit code 1 where there is none."
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The message's key.")
        var message: String
        @Flag(help: "One JSON array instead of text.")
        var json = false

        func run() async throws {
            guard let key = MessageKey(message) else {
                throw CommandFailure(.usage, "a message_key is 8-4-4-4-12 hex digits")
            }
            var filter = DeadLetterFilter()
            filter.messageKey = key
            let chosen = filter
            let rows = try await options.withConnection {
                try await DeadLetters($0).list(chosen, limit: 1_000)
            }.map(Row.init)
            guard !rows.isEmpty else { throw CommandFailure(.negative, "this message has no dead letter") }
            if json { return try HandlersCommand.printJSON(rows) }
            for row in rows {
                Console.data(
                    Console.table([
                        ["handler", row.handler], ["message_key", row.messageKey], ["category", row.category ?? "-"],
                        ["received_at", row.receivedAt], ["died_at", row.diedAt], ["attempts", String(row.attempts)],
                        ["error_group", row.errorGroup], ["error", row.error],
                    ]) + "\n"
                )
            }
        }
    }

    /// `dead groups`.
    struct Groups: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Counts dead letters by what they failed with.")

        @OptionGroup var options: CommonOptions
        @OptionGroup var filter: Filter
        @Flag(help: "One JSON array instead of a table.")
        var json = false

        private struct GroupRow: Encodable {
            var handler: String
            var errorGroup: String
            var count: Int
            var firstDiedAt: String
            var lastDiedAt: String
        }

        func run() async throws {
            let filter = try filter.make()
            let rows = try await options.withConnection { connection in
                let letters = DeadLetters(connection)
                return try await letters.groups(letters.judge(filter))
            }.map {
                GroupRow(
                    handler: $0.handler,
                    errorGroup: $0.group,
                    count: $0.count,
                    firstDiedAt: HandlersCommand.time($0.first),
                    lastDiedAt: HandlersCommand.time($0.last)
                )
            }
            if json { return try HandlersCommand.printJSON(rows) }
            let cells = rows.map { [String($0.count), $0.handler, $0.firstDiedAt, $0.lastDiedAt, $0.errorGroup] }
            Console.data(Console.table([["COUNT", "HANDLER", "FIRST", "LAST", "ERROR GROUP"]] + cells))
        }
    }

    /// `dead retry`.
    struct Retry: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Gives dead letters back to their handlers, with all attempts before them."
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var filter: Filter
        @Flag(help: "All of them, where no filter is given.")
        var all = false

        func run() async throws {
            try await DeadCommand.move(options, filter, all: all, verb: "retried") { try await $0.retry($1) }
        }
    }

    /// `dead discard`.
    struct Discard: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Deletes dead letters; the messages themselves stay."
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var filter: Filter
        @Flag(help: "All of them, where no filter is given.")
        var all = false
        @Flag(help: "Do it without asking.")
        var yes = false

        func run() async throws {
            if !yes {
                guard let answer = Console.ask("Discard these dead letters for good?") else {
                    throw CommandFailure(.usage, "dead discard deletes: add --yes where nobody can be asked")
                }
                guard answer else { throw CommandFailure(.negative, "nothing was changed") }
            }
            try await DeadCommand.move(options, filter, all: all, verb: "discarded") { try await $0.discard($1) }
        }
    }

    /// Works through what the filter lets through, part by part, and shows how far it is.
    ///
    /// What dies meanwhile is left for another time.
    fileprivate static func move(
        _ options: CommonOptions,
        _ arguments: Filter,
        all: Bool,
        verb: String,
        _ step: (DeadLetters, DeadLetterFilter) async throws -> Int
    ) async throws {
        guard all || !arguments.isEmpty else {
            throw CommandFailure(.usage, "say which (--handler, --group, --category, …), or --all")
        }
        let filter = try arguments.make()
        try await options.withConnection { connection in
            let letters = DeadLetters(connection)
            let chosen = try await letters.judge(filter, freezing: true)
            let total = try await letters.count(chosen)
            let bar = ProgressBar(verb)
            var done = 0
            while case let count = try await step(letters, chosen), count > 0 {
                done += count
                bar.show(Int64(done), of: Int64(total))
            }
            bar.clear()
            Console.message("\(verb) \(done)")
        }
    }
}
