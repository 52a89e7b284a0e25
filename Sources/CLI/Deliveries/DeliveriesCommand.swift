import ArgumentParser
import MessageStore
import Postgres
import Resources
import Vocabulary

struct DeliveriesCommand: DescribedCommand {
    static let manual = """
        deliveries: Shows what waits for handlers; makes it due at once, or gives it up.
          upstream-worker deliveries list
          upstream-worker deliveries list --handler billing --since 1h
          upstream-worker deliveries retry-now --handler billing
          upstream-worker deliveries cancel --category com.example.legacy
        """
    static let subcommands: Subcommands = [
        ListCommand<WaitingDelivery>.self, DeliveriesRetryNow.self, DeliveriesCancel.self,
    ]
}

extension WaitingDelivery: ListedRow {
    typealias Options = DeliveriesFilter

    static let most = 1_000
    static let none = "no deliveries match"
    static let manual = """
        list: Shows what waits for handlers and why; what is due first comes first.
          upstream-worker deliveries list
          upstream-worker deliveries list --handler billing --since 1h
          upstream-worker deliveries list --group timeout --json

        REASON is one of: due (a worker takes it in its turn), retry (the latest attempt
        failed), postponed (given back without a counted attempt), leased (a worker
        has it in hand), held (the handler asked for a pause, with Retry-After; until
        then nothing is tried, unless `handlers resume` or `deliveries retry-now` ends
        it), paused, unclaimed (no worker runs the handler).
        """

    static func page(_ asked: ListRequest<Self>, _ connection: PostgresConnection) async throws -> [Self] {
        try await KnownHandlers.require(asked.filter.handler, connection)
        return try await WaitingDeliveries(connection).list(asked.filter, after: asked.cursor, limit: asked.limit)
    }
}

struct DeliveriesRetryNow: ProgramCommand {
    static let manual = """
        retry-now: Makes deliveries due at once that wait for their next attempt.
          upstream-worker deliveries retry-now --handler billing --dry-run
          upstream-worker deliveries retry-now --handler billing --reason "fixed"
          upstream-worker deliveries retry-now --group "webhook status 503"
          upstream-worker deliveries retry-now --all --yes

        Attempts are counted as before. What a worker has in hand is left alone, and
        an open circuit breaker still holds a handler's deliveries back until its
        next probe: see `handlers list`.
        """

    @OptionGroup var action: DeliveriesAction

    func run(in context: CommandContext) async throws {
        try await action.run(.retryNow, in: context)
    }
}

struct DeliveriesCancel: ProgramCommand {
    static let manual = """
        cancel: Gives waiting deliveries up: they become dead letters.
          upstream-worker deliveries cancel --handler billing --dry-run
          upstream-worker deliveries cancel --handler billing --since 1d --yes
          upstream-worker dead retry --group "cancelled by operator"   # undo

        They are dead letters of the group "cancelled by operator", with who and why
        as their error, until they are retried, discarded, or expire. What a worker
        has in hand is left alone; the messages stay.
        """

    @OptionGroup var action: DeliveriesAction

    func run(in context: CommandContext) async throws {
        try await action.run(.cancel, in: context)
    }
}

struct DeliveriesAction: ParsableArguments {
    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: DeliveriesFilter
    @Flag(help: "All of them; needed where no filter is given.") var all = false
    @Flag(help: "Only count them; change nothing.") var dryRun = false
    @Flag(help: "Do not ask for confirmation, which more than 100 need.") var yes = false
    @OptionGroup var reason: ReasonOption
    @Flag(help: "One JSON object with the counts instead of text.") var json = false

    func run(_ act: WaitingDeliveries.Act, in context: CommandContext) async throws {
        try filter.requireSome(all: all)
        let (asked, console) = (try filter.asked(), context.console)
        let (verb, past) = act == .cancel ? ("Cancel", "cancelled") : ("Retry", "made due")
        let (matched, done, held) = try await options.withConnection(context) { connection in
            let now = try await connection.databaseTime()
            try await KnownHandlers.require(filter.handler, connection)
            var chosen = try await asked.judged(connection)
            if act == .cancel { chosen.until = min(chosen.until ?? now, now) }
            let counts = try await WaitingDeliveries(connection).count(chosen, at: now)
            // What comes, or is given back, meanwhile is not part of it.
            if act == .cancel { chosen.count = WaitingCount(at: now, snapshot: counts.snapshot) }
            let total = act == .cancel ? counts.free : counts.later
            guard !dryRun, total > 0 || act == .retryNow else { return (total, 0, counts.held) }
            try console.confirmMany(total, "\(verb) \(Amount.count(total)) deliveries?", yes: yes)
            let bulk = BulkAction(.waiting(act, chosen), total: total, by: reason.author)
            return (total, try await bulk.run(over: connection, past, console), counts.held)
        }
        if json {
            return try console.json(object: [
                "action": act.action.rawValue, "matched": matched, "done": done, "left_with_workers": held,
                "dry_run": dryRun,
            ])
        }
        let left = held > 0 ? "; workers have \(Amount.count(held)) more in hand, which were left alone" : ""
        // Workers, or somebody else, took the rest meanwhile.
        let fewer = done < matched ? " of \(matched)" : ""
        console.message(
            dryRun
                ? "would have \(past) \(matched)\(left); nothing was changed"
                : "\(past) \(done)\(fewer)\(left)"
        )
    }
}
