import ArgumentParser
import Foundation
import MessageStore
import Postgres
import Telemetry
import Vocabulary
import Worker

/// `migrate`: the schema.
struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Makes the tables, takes them back, or shows which steps are applied.",
        discussion: """
            Examples:
              upstream-worker migrate up
              upstream-worker migrate status --json
              upstream-worker migrate down --yes
            """,
        subcommands: [Up.self, Down.self, Status.self]
    )
}

extension MigrateCommand {
    /// `migrate up`.
    struct Up: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Applies every step that is missing.")

        @OptionGroup var options: CommonOptions

        func run() async throws {
            let done = try await options.withConnection { try await Migrator().up($0) }
            for version in done { Console.message("applied \(version)") }
            if done.isEmpty { Console.message("the schema is current") }
        }
    }

    /// `migrate down`.
    struct Down: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Takes back the latest step, and what it stored with it.",
            discussion: """
                Examples:
                  upstream-worker migrate down           asks first
                  upstream-worker migrate down --yes     for scripts
                """
        )

        @OptionGroup var options: CommonOptions
        @Flag(help: "Take back every step.")
        var all = false
        @Flag(help: "Do it without asking.")
        var yes = false

        func run() async throws {
            if !yes {
                let what = all ? "every step of the schema, with all messages" : "the latest step, with what it stores"
                guard let answer = Console.ask("Take back \(what)?") else {
                    throw CommandFailure(.usage, "migrate down deletes data: add --yes where nobody can be asked")
                }
                guard answer else { throw CommandFailure(.negative, "nothing was changed") }
            }
            let done = try await options.withConnection { try await Migrator().down($0, all: all) }
            for version in done { Console.message("took back \(version)") }
            if done.isEmpty { Console.message("there is nothing to take back") }
        }
    }

    /// `migrate status`.
    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows which steps are applied; exit code 1 when the schema isn't current."
        )

        @OptionGroup var options: CommonOptions
        @Flag(help: "One JSON array instead of a table.")
        var json = false

        func run() async throws {
            let (rows, state) = try await options.withConnection { connection in
                (try await Migrator().status(connection), try await Migrator().state(connection))
            }
            if json {
                try printJSON(rows)
            } else {
                let cells = rows.map {
                    [$0.version, $0.name.isEmpty ? "(unknown)" : $0.name, Self.time($0) ?? "pending"]
                }
                Console.data(Console.table([["VERSION", "NAME", "APPLIED"]] + cells))
            }
            if let problem = state.problem { throw CommandFailure(.negative, problem) }
        }

        private func printJSON(_ rows: [Migrator.Status]) throws {
            struct Row: Encodable {
                var version: String
                var name: String
                var appliedAt: String?
            }
            let encoder = JSONEncoder()
            encoder.keyEncodingStrategy = .convertToSnakeCase
            encoder.outputFormatting = [.sortedKeys]
            let bytes = try encoder.encode(
                rows.map { Row(version: $0.version, name: $0.name, appliedAt: Self.time($0)) }
            )
            Console.data(String(decoding: bytes, as: UTF8.self))
        }

        private static func time(_ row: Migrator.Status) -> String? {
            row.appliedAt.map { Timestamp(microseconds: $0).rfc3339 }
        }
    }
}
