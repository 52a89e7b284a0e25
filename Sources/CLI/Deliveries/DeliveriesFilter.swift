import ArgumentParser
import MessageStore
import Postgres
import Querying
import UpstreamKit
import Vocabulary

/// The options that select waiting deliveries.
struct DeliveriesFilter: ParsableArguments {
    @Option(help: "Only deliveries to this handler.")
    var handler: String?
    @Option(help: "Only messages of this category.")
    var category: String?
    @Option(help: ArgumentHelp("Only one message, by its message_key.", valueName: "key"))
    var messageKey: String?
    @Option(help: "Only those whose latest attempt failed so: an error group.")
    var group: String?
    @Option(name: .customLong("error-group"), help: ArgumentHelp("--group", visibility: .hidden))
    var formerGroup: String?
    @Option(help: ArgumentHelp("The message was received at or after: 2h, 2026-01-31.", valueName: "time"))
    var since: String?
    @Option(help: ArgumentHelp("The message was received before.", valueName: "time"))
    var until: String?

    var isEmpty: Bool {
        handler == nil && category == nil && messageKey == nil && group == nil && formerGroup == nil && since == nil
            && until == nil
    }

    /// The filter for the store, with ages counted back from `now`.
    ///
    /// - Throws: ``CommandFailure`` and `FilterError` for invalid values.
    func make(now: Timestamp) throws -> WaitingFilter {
        var filter = WaitingFilter()
        filter.handler = handler
        filter.category = category
        filter.errorGroup = group ?? formerGroup
        filter.messageKey = try messageKey.map { try MessageKey($0, for: "--message-key") }
        filter.since = try since.map { try TimeExpression.parse($0, now: now) }
        filter.until = try until.map { try TimeExpression.parse($0, now: now) }
        if let since = filter.since, let until = filter.until, since >= until {
            throw CommandFailure(.usage, "--since must be before --until")
        }
        return filter
    }

    /// The filter with ages counted back from the database's clock; an unknown handler is an error.
    func judged(_ connection: PostgresConnection) async throws -> WaitingFilter {
        try await KnownHandlers.require(handler, connection)
        return try make(now: try await connection.databaseTime())
    }
}

/// The options and the work that `deliveries retry-now` and `deliveries cancel` share.
struct DeliveriesAction: ParsableArguments {
    @OptionGroup var filter: DeliveriesFilter
    @Flag(help: "All of them; needed where no filter is given.")
    var all = false
    @Flag(help: "Only count them; change nothing.")
    var dryRun = false
    @Flag(help: "Do not ask for confirmation, which more than 100 need.")
    var yes = false
    @OptionGroup var reason: ReasonOption
    @Flag(help: "One JSON object with the counts instead of text.")
    var json = false

    private struct Report: Encodable {
        var action: String
        var matched: Int
        var done: Int
        var leftWithWorkers: Int
        var dryRun: Bool
    }

    /// Runs the command; `words` are the verb for the question, and its past tense.
    ///
    /// - Throws: A usage error without a filter, and what configuration and database throw.
    func run(
        _ act: WaitingDeliveries.Act,
        words: (verb: String, done: String),
        _ options: CommonOptions,
        _ context: CommandContext
    ) async throws {
        guard all || !filter.isEmpty else {
            throw CommandFailure(.usage, "give a filter (--handler, --category, --group, …), or --all")
        }
        _ = try filter.make(now: .now)
        let console = context.console
        let report = try await options.withConnection(context) { connection in
            let now = try await connection.databaseTime()
            var chosen = try await filter.judged(connection)
            // What arrives meanwhile is left out.
            if act == .cancel, chosen.until == nil { chosen.until = now }
            let counts = try await WaitingDeliveries(connection).count(chosen)
            let total = act == .cancel ? counts.free : counts.later
            var report = Report(
                action: act.action.rawValue,
                matched: total,
                done: 0,
                leftWithWorkers: counts.held,
                dryRun: dryRun
            )
            guard !dryRun, total > 0 || act == .retryNow else { return report }
            try console.confirmMany(total, "\(words.verb) \(Amount.count(total)) deliveries?", yes: yes)
            let bulk = BulkAction(.waiting(act, chosen), total: total, by: reason.author)
            report.done = try await bulk.run(over: connection, words.done, console)
            return report
        }
        if json { return try console.json(report) }
        let held = report.leftWithWorkers
        let left = held > 0 ? "; workers have \(Amount.count(held)) more in hand, which were left alone" : ""
        // Workers, or somebody else, took the rest meanwhile.
        let fewer = report.done < report.matched ? " of \(report.matched)" : ""
        console.message(
            dryRun
                ? "would have \(words.done) \(report.matched)\(left); nothing was changed"
                : "\(words.done) \(report.done)\(fewer)\(left)"
        )
    }
}
