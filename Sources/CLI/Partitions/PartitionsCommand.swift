import ArgumentParser
import MessageStore
import Postgres
import UpstreamConfiguration
import Vocabulary

struct PartitionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "partitions",
        abstract: "Shows the daily partitions and what retention does with them; runs retention; sets its policy.",
        discussion: """
            Examples:
              upstream-worker partitions plan
              upstream-worker partitions plan --json
              upstream-worker partitions run
              upstream-worker partitions run --force   # also days that deliveries need
              upstream-worker partitions policy        # how long data is kept

            `run` creates the partitions from yesterday to a week ahead, drops days past retention.messages with conflicts \
            and quarantined stanzas of that age, deletes dead letters past retention.dead_letters, and deletes ledger rows \
            past retention.dedupe_window. Workers do the same once a day, a while after midnight UTC. The policy in the \
            database and the database's clock decide.
            """,
        subcommands: [PartitionsPlan.self, PartitionsRun.self, PartitionsPolicy.self]
    )
}

struct PartitionsPlan: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Shows every day's partition and what `run` would do; changes nothing.",
        discussion: """
            Examples:
              upstream-worker partitions plan
              upstream-worker partitions plan --json

            Row counts are estimates from PostgreSQL's catalog; sizes are exact and include indexes.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var format: ObjectFormatOptions

    func run(in context: CommandContext) async throws {
        try await options.withDatabase(context) { connection, configuration in
            try await Self.show(connection, configuration.retention, json: format.json, context.console)
        }
    }

    /// Prints the plan under the policy in force, or under the configured one if there is none.
    static func show(
        _ connection: PostgresConnection,
        _ configured: RetentionPolicy,
        json: Bool,
        _ console: Terminal
    ) async throws {
        let retention = Retention(connection)
        let inForce = try await retention.policy()?.policy
        let policy = inForce ?? configured
        let plan = try await retention.plan(under: policy)
        let last = try await retention.lastRun()
        let difference = try await retention.clockDifference()
        if difference.isTooLarge {
            console.message("\(difference.description): `run` deletes nothing until the wrong clock is set")
        }
        if inForce == nil {
            console.message(
                "no policy is in force yet: this plan uses the configuration; a worker's start sets the policy"
            )
        }
        if json {
            return try console.json(object: [
                "partitions": plan.partitions.map(\.members), "missing": plan.missing.map(\.start.date),
                "ledger_rows_estimate": plan.ledgerRows, "ledger_expired_estimate": plan.ledgerExpired,
                "conflicts_expired": plan.conflicts, "quarantine_expired": plan.quarantine,
                "dead_letters_expired": plan.deadLetters, "last_run": last?.rfc3339,
            ])
        }
        let cells = plan.partitions.map { partition in
            [
                partition.day.start.date, Amount.estimate(partition.rows), Amount.bytes(partition.bytes),
                partition.fateInWords(policy),
            ]
        }
        let missing = plan.missing.map { [$0.start.date, "-", "-", "create"] }
        console.table(TextTable(["DAY", "ROWS", "SIZE", .init("FATE", minimum: 20).ofStates], cells + missing))
        let drop = plan.partitions(.drop)
        console.message(
            """
            run would drop \(drop.count) partitions, \(Amount.bytes(drop.reduce(0) { $0 + $1.bytes })); conflicts to delete: \
            \(Amount.count(plan.conflicts)), quarantined stanzas: \(Amount.count(plan.quarantine)), dead letters: \
            \(Amount.count(plan.deadLetters)),
            ledger rows to delete: \(Amount.estimate(plan.ledgerExpired)) of \(Amount.estimate(plan.ledgerRows)). \
            "~" marks estimates from the catalog. Last run: \(last?.shown ?? "none yet").
            """
        )
    }
}

extension PartitionPlan {
    /// Its JSON form.
    var members: JSONMembers {
        let isHeld = fate == .held
        return [
            "day": day.start.date, "partition": name, "rows_estimate": rows, "bytes": bytes, "fate": fate.rawValue,
            "waiting_deliveries": isHeld ? waiting : nil,
            "dead_letters": isHeld || fate == .drop ? deadLetters : nil,
        ]
    }

    /// The deliveries that still need it, as text.
    var neededBy: String { Amount.counted(waiting, "delivery", plural: "deliveries") }

    /// The dead letters that keep their messages when it is dropped, as text.
    var keptDeadLetters: String {
        switch deadLetters {
        case ...0: ""
        case 1: ", 1 dead letter keeps its message"
        default: ", \(Amount.count(deadLetters)) dead letters keep their messages"
        }
    }

    func fateInWords(_ policy: RetentionPolicy) -> String {
        switch fate {
        case .ahead: "ahead"
        case .keep: "keep until \((end + policy.messages - .microseconds(1)).date)"
        case .drop: "drop\(keptDeadLetters)"
        case .held: "held for \(neededBy)"
        }
    }
}
