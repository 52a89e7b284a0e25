import ArgumentParser
import Postgres
import Querying
import Telemetry
import UpstreamKit
import Vocabulary

/// The options that select quarantined stanzas.
struct QuarantineFilter: ParsableArguments {
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

    /// The query with its times relative to the database's clock.
    ///
    /// - Throws: What ``make(now:)`` throws for the times, and `PostgresError`.
    func judged(_ query: QuarantineQuery, _ connection: PostgresConnection) async throws -> QuarantineQuery {
        guard since != nil || until != nil else { return query }
        let times = try make(now: try await MessageTail.now(connection))
        var query = query
        (query.since, query.until) = (times.since, times.until)
        return query
    }

    /// The query for the store.
    ///
    /// - Throws: ``CommandFailure`` and `FilterError`
    func make(now: Timestamp = .now) throws -> QuarantineQuery {
        var query = QuarantineQuery()
        query.senderID = sender
        query.messageID = messageID
        query.since = try since.map { try TimeExpression.parse($0, now: now) }
        query.until = try until.map { try TimeExpression.parse($0, now: now) }
        if let since = query.since, let until = query.until, since >= until {
            throw CommandFailure(.usage, "--since must be before --until")
        }
        if let reason {
            guard QuarantineReason(rawValue: reason) != nil else {
                let known = QuarantineReason.allCases.map(\.rawValue).joined(separator: ", ")
                throw CommandFailure(.usage, "--reason takes one of \(known)")
            }
            query.reason = reason
        }
        return query
    }
}
