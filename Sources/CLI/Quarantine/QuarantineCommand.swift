import ArgumentParser
import Postgres
import Querying
import Telemetry
import UpstreamKit
import Vocabulary
import Worker

/// `quarantine`: stanzas that could not be taken as messages.
struct QuarantineCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quarantine",
        abstract: "Shows and exports stanzas that could not be taken as messages.",
        discussion: """
            Examples:
              upstream-worker quarantine list --reason category_unusable --since 1d
              upstream-worker quarantine show 17
              upstream-worker quarantine show 17 --raw | xxd | less
              upstream-worker quarantine export --since 7d > odd.ndjson
            """,
        subcommands: [QuarantineList.self, QuarantineShow.self, QuarantineExport.self]
    )

    /// Which rows.
    struct Filter: ParsableArguments {
        @Option(help: "Only stanzas for this sender.")
        var sender: String?
        @Option(help: "Only this reason: \(QuarantineReason.allCases.map(\.rawValue).joined(separator: ", ")).")
        var reason: String?
        @Option(name: .customLong("message-id"), help: ArgumentHelp("Only stanzas with this id.", valueName: "id"))
        var messageID: String?
        @Option(help: ArgumentHelp("First received at or after, for example 2h or 2026-01-31.", valueName: "time"))
        var since: String?
        @Option(help: ArgumentHelp("First received before.", valueName: "time"))
        var until: String?

        /// The query, with spans of time counted back from the database's present.
        ///
        /// - Throws: What ``make(now:)`` throws of the times, and `PostgresError`.
        func judged(_ query: QuarantineQuery, _ connection: PostgresConnection) async throws -> QuarantineQuery {
            guard since != nil || until != nil else { return query }
            let times = try make(now: try await MessageTail.now(connection))
            var query = query
            (query.since, query.until) = (times.since, times.until)
            return query
        }

        /// The query.
        ///
        /// - Throws: ``CommandFailure`` and `FilterError`
        func make(now: Int64 = Timestamp.now.microseconds) throws -> QuarantineQuery {
            var query = QuarantineQuery()
            query.senderID = sender
            query.messageID = messageID
            query.since = try since.map { try TimeExpression.parse($0, now: now) }
            query.until = try until.map { try TimeExpression.parse($0, now: now) }
            if let reason {
                guard QuarantineReason(rawValue: reason) != nil else {
                    let known = QuarantineReason.allCases.map(\.rawValue).joined(separator: ", ")
                    throw CommandFailure(.usage, "--reason is one of \(known)")
                }
                query.reason = reason
            }
            return query
        }
    }
}
