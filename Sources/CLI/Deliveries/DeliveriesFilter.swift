import ArgumentParser
import MessageStore
import Postgres
import Resources
import Vocabulary

/// What `deliveries retry-now` and `deliveries cancel` share.
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
        let asked = try filter.asked()
        let console = context.console
        let report = try await options.withConnection(context) { connection in
            let now = try await connection.databaseTime()
            try await KnownHandlers.require(filter.handler, connection)
            var chosen = try await asked.judged(connection)
            // What arrives meanwhile is not part of it.
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
