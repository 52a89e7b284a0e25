import ArgumentParser
import MessageStore
import Postgres
import Telemetry
import Vocabulary
import Worker

/// `partitions`: what retention would do, and doing it now.
struct PartitionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "partitions",
        abstract: "Shows the days of messages and what retention does with them; runs retention; sets its policy.",
        discussion: """
            Examples:
              upstream-worker partitions plan
              upstream-worker partitions plan --json
              upstream-worker partitions run
              upstream-worker partitions run --force     also days that deliveries still need
              upstream-worker partitions policy          what is kept for how long, and what the configuration says

            `run` makes the partitions from yesterday to a week ahead, drops days past retention.messages with conflicts \
            and quarantined stanzas of that age, deletes dead letters past retention.dead_letters, and forgets ids past \
            retention.dedupe_window. Workers do the same once a day, a while after midnight UTC. What counts is the policy \
            in the database, and the database's clock.
            """,
        subcommands: [Plan.self, Run.self, Policy.self]
    )

    /// One partition, for people and programs.
    fileprivate struct Row: Encodable {
        var day: String
        var partition: String
        var rowsEstimate: Int64?
        var bytes: Int64
        var fate: String
        var waitingDeliveries: Int64?
        var deadLetters: Int64?

        init(_ partition: PartitionPlan) {
            day = PartitionsCommand.date(partition.day)
            self.partition = partition.name
            rowsEstimate = partition.rows
            bytes = partition.bytes
            fate = partition.fate.rawValue
            if partition.fate == .held { waitingDeliveries = partition.waiting }
            if partition.fate == .held || partition.fate == .drop { deadLetters = partition.deadLetters }
        }
    }

    /// A day as `YYYY-MM-DD`.
    static func date(_ day: UTCDay) -> String { String(Timestamp(microseconds: day.start).rfc3339.prefix(10)) }

    fileprivate static func needs(_ partition: PartitionPlan) -> String {
        "\(Amount.count(partition.waiting)) \(partition.waiting == 1 ? "delivery" : "deliveries")"
    }

    fileprivate static func kept(_ partition: PartitionPlan) -> String {
        guard partition.deadLetters > 0 else { return "" }
        let count = Amount.count(partition.deadLetters)
        return partition.deadLetters == 1
            ? ", 1 dead letter keeps its message" : ", \(count) dead letters keep their messages"
    }

    /// What happens to a partition, in words.
    fileprivate static func words(_ partition: PartitionPlan, _ policy: RetentionPolicy) -> String {
        switch partition.fate {
        case .ahead: "ahead"
        case .keep: "keep until \(date(UTCDay(microseconds: partition.end + policy.messages.microseconds - 1)))"
        case .drop: "drop\(kept(partition))"
        case .held: "held for \(needs(partition))"
        }
    }
}

extension PartitionsCommand {
    /// `partitions plan`.
    struct Plan: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows every day's partition and what `run` would do; changes nothing.",
            discussion: """
                Examples:
                  upstream-worker partitions plan
                  upstream-worker partitions plan --json

                Rows are estimates from PostgreSQL's catalog; sizes are exact and include indexes.
                """
        )

        @OptionGroup var options: CommonOptions
        @Flag(help: "One JSON object instead of a table.")
        var json = false

        func run() async throws {
            try await options.withDatabase { connection, configuration in
                try await PartitionsCommand.show(connection, configuration.retention, json: json)
            }
        }
    }

    /// `partitions run`.
    struct Run: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Runs retention now; exit code 1 where a day is kept because something still needs it.",
            discussion: """
                Examples:
                  upstream-worker partitions run --dry-run
                  upstream-worker partitions run
                  upstream-worker partitions run --force --yes

                Ingest never waits for more than 50 ms. A day that somebody reads all the time is kept for the next run: exit \
                code 75. Nothing is deleted where this machine's clock and the database's differ by more than five minutes: \
                exit code 78.
                """
        )

        @OptionGroup var options: CommonOptions
        @Flag(help: "Show what would be done, as `plan` does.")
        var dryRun = false
        @Flag(help: "Give up deliveries that still need a day that is too old, and drop it with them.")
        var force = false
        @Flag(help: "Do not ask before --force gives something up.")
        var yes = false
        @Flag(help: "One JSON object instead of a table.")
        var json = false

        func run() async throws {
            try await options.withDatabase { connection, configuration in
                if dryRun { return try await PartitionsCommand.show(connection, configuration.retention, json: json) }
                let retention = Retention(connection)
                if force { try await confirm(retention) }
                let bar = ProgressBar("retention")
                let report = try await retention.run(force: force) { Self.show($0, bar) }
                bar.clear()
                if let refusal = report.refusal { throw Self.failure(refusal) }
                try print(report)
                try Self.judge(report)
            }
        }

        private static func failure(_ refusal: RetentionRefusal) -> CommandFailure {
            switch refusal {
            case .clock(let difference):
                CommandFailure(
                    .configuration,
                    "\(difference.description): nothing was deleted. Set the clock that is wrong, then run it again"
                )
            case .noPolicy:
                CommandFailure(
                    .temporaryFailure,
                    "there is no retention policy in this database yet: nothing was deleted. A worker sets it at its start, "
                        + "or `partitions policy --apply`"
                )
            }
        }

        private func confirm(_ retention: Retention) async throws {
            guard let inForce = try await retention.policy() else { return }
            let held = try await retention.plan(under: inForce.policy).partitions(.held)
            guard !yes, !held.isEmpty else { return }
            for partition in held {
                Console.message("\(PartitionsCommand.date(partition.day)): \(PartitionsCommand.needs(partition))")
            }
            guard let answer = Console.ask("Give these up, with the messages of their days?") else {
                throw CommandFailure(.usage, "--force gives deliveries up: add --yes where nobody can be asked")
            }
            guard answer else { throw CommandFailure(.negative, "nothing was changed") }
        }

        private static func show(_ progress: RetentionProgress, _ bar: ProgressBar) {
            switch progress {
            case .partition(let partition, let outcome):
                bar.clear()
                let day = PartitionsCommand.date(partition.day)
                switch outcome {
                case .dropped:
                    Console.message(
                        "\(day): dropped, \(Amount.bytes(partition.bytes))\(PartitionsCommand.kept(partition))"
                    )
                case .pending:
                    Console.message(
                        "\(day): kept for \(PartitionsCommand.needs(partition)) (--force gives them up)"
                    )
                case .locked:
                    Console.message("\(day): kept: somebody is reading the table all the time; try again later")
                case .absent, .busy: break
                }
            case .ledger(let block, let all, let deleted):
                bar.show(block, of: all, "ledger: \(Amount.count(Int64(deleted))) ids forgotten")
            case .odd(let deleted):
                bar.show(Int64(deleted), of: nil, "conflicts, quarantined stanzas and dead letters")
            }
        }

        private func print(_ report: RetentionReport) throws {
            struct Summary: Encodable {
                var created: Int
                var dropped: [Row]
                var held: [Row]
                var locked: [Row]
                var deliveriesGivenUp: Int
                var deadLettersKept: Int
                var deadLettersDeleted: Int
                var ledgerRowsDeleted: Int
                var conflictsDeleted: Int
                var quarantineDeleted: Int
                var complete: Bool
            }
            let summary = Summary(
                created: report.created,
                dropped: report.dropped.map(Row.init),
                held: report.held.map(Row.init),
                locked: report.locked.map(Row.init),
                deliveriesGivenUp: report.deliveries,
                deadLettersKept: report.deadLettersKept,
                deadLettersDeleted: report.deadLetters,
                ledgerRowsDeleted: report.ledger,
                conflictsDeleted: report.conflicts,
                quarantineDeleted: report.quarantine,
                complete: report.isComplete
            )
            if json { return try Console.json(summary) }
            func number(_ count: Int) -> String { Amount.count(Int64(count)) }
            Console.data(
                Console.table([
                    ["partitions created", number(report.created)],
                    [
                        "partitions dropped",
                        number(report.dropped.count) + ", " + Amount.bytes(report.dropped.reduce(0) { $0 + $1.bytes }),
                    ],
                    ["partitions kept, still needed", number(report.held.count)],
                    ["partitions kept, in use", number(report.locked.count)],
                    ["deliveries given up", number(report.deliveries)],
                    ["dead letters of dropped days, kept", number(report.deadLettersKept)],
                    ["dead letters deleted", number(report.deadLetters)],
                    ["ledger rows deleted", number(report.ledger)],
                    ["conflicts deleted", number(report.conflicts)],
                    ["quarantined stanzas deleted", number(report.quarantine)],
                ])
            )
        }

        private static func judge(_ report: RetentionReport) throws {
            if report.isBusy {
                throw CommandFailure(.temporaryFailure, "a worker is running retention just now: it does the rest")
            }
            if !report.locked.isEmpty { throw CommandFailure(.temporaryFailure) }
            if !report.held.isEmpty { throw CommandFailure(.negative) }
        }
    }

    /// Prints the plan.
    ///
    /// By the policy in force; where there is none yet, by the configuration's.
    fileprivate static func show(
        _ connection: PostgresConnection,
        _ configured: RetentionPolicy,
        json: Bool
    ) async throws {
        let retention = Retention(connection)
        let inForce = try await retention.policy()?.policy
        let policy = inForce ?? configured
        let plan = try await retention.plan(under: policy)
        let last = try await retention.lastRun().map { Timestamp(microseconds: $0).rfc3339 }
        let difference = try await retention.clockDifference()
        if difference.isTooLarge {
            Console.message("\(difference.description): `run` deletes nothing until the one that is wrong is set")
        }
        if inForce == nil {
            Console.message("no policy is in force yet: this is by the configuration, and a worker's start sets it")
        }
        if json { return try Console.json(PlanDocument(plan, lastRun: last)) }
        let cells = plan.partitions.map { partition in
            [
                date(partition.day), partition.rows.map { "~" + Amount.count($0) } ?? "?",
                Amount.bytes(partition.bytes), words(partition, policy),
            ]
        }
        let missing = plan.missing.map { [date($0), "-", "-", "create"] }
        Console.data(Console.table([["DAY", "ROWS", "SIZE", "FATE"]] + cells + missing))
        let freed = plan.partitions(.drop).reduce(0) { $0 + $1.bytes }
        let ledger = plan.ledgerRows.map { "~" + Amount.count($0) } ?? "?"
        let expired = plan.ledgerExpired.map { "~" + Amount.count($0) } ?? "?"
        Console.message(
            """
            run would drop \(plan.partitions(.drop).count) partitions, \(Amount.bytes(freed)); conflicts to delete: \
            \(Amount.count(plan.conflicts)), quarantined stanzas: \(Amount.count(plan.quarantine)), dead letters: \
            \(Amount.count(plan.deadLetters)),
            ids to forget: \(expired) of \(ledger). "~" marks estimates from the catalog. Last run: \(last ?? "none yet").
            """
        )
    }

    private struct PlanDocument: Encodable {
        var partitions: [Row]
        var missing: [String]
        var ledgerRowsEstimate: Int64?
        var ledgerExpiredEstimate: Int64?
        var conflictsExpired: Int64
        var quarantineExpired: Int64
        var deadLettersExpired: Int64
        var lastRun: String?

        init(_ plan: RetentionPlan, lastRun: String?) {
            self.lastRun = lastRun
            partitions = plan.partitions.map(Row.init)
            missing = plan.missing.map(date)
            ledgerRowsEstimate = plan.ledgerRows
            ledgerExpiredEstimate = plan.ledgerExpired
            conflictsExpired = plan.conflicts
            quarantineExpired = plan.quarantine
            deadLettersExpired = plan.deadLetters
        }
    }
}
