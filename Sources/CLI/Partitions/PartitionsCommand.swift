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

    private struct Document: Encodable {
        var partitions: [PartitionRow]
        var missing: [String]
        var ledgerRowsEstimate: Int64?
        var ledgerExpiredEstimate: Int64?
        var conflictsExpired: Int64
        var quarantineExpired: Int64
        var deadLettersExpired: Int64
        var lastRun: String?

        init(_ plan: RetentionPlan, lastRun: String?) {
            self.lastRun = lastRun
            partitions = plan.partitions.map(PartitionRow.init)
            missing = plan.missing.map(ShownTime.date)
            ledgerRowsEstimate = plan.ledgerRows
            ledgerExpiredEstimate = plan.ledgerExpired
            conflictsExpired = plan.conflicts
            quarantineExpired = plan.quarantine
            deadLettersExpired = plan.deadLetters
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
        if json { return try console.json(Document(plan, lastRun: last.map(ShownTime.full))) }
        show(plan, policy, console)
        console.message(summary(plan, last: last))
    }

    private static func show(_ plan: RetentionPlan, _ policy: RetentionPolicy, _ console: Terminal) {
        let cells = plan.partitions.map { partition in
            [
                ShownTime.date(partition.day), Amount.estimate(partition.rows), Amount.bytes(partition.bytes),
                partition.fateInWords(policy),
            ]
        }
        let missing = plan.missing.map { [ShownTime.date($0), "-", "-", "create"] }
        console.table(TextTable(["DAY", "ROWS", "SIZE", .init("FATE", minimum: 20).ofStates], cells + missing))
    }

    private static func summary(_ plan: RetentionPlan, last: Timestamp?) -> String {
        let drop = plan.partitions(.drop)
        return """
            run would drop \(drop.count) partitions, \(Amount.bytes(drop.reduce(0) { $0 + $1.bytes })); conflicts to delete: \
            \(Amount.count(plan.conflicts)), quarantined stanzas: \(Amount.count(plan.quarantine)), dead letters: \
            \(Amount.count(plan.deadLetters)),
            ledger rows to delete: \(Amount.estimate(plan.ledgerExpired)) of \(Amount.estimate(plan.ledgerRows)). \
            "~" marks estimates from the catalog. Last run: \(last.map(ShownTime.short) ?? "none yet").
            """
    }
}

/// The JSON form of a day's partition.
struct PartitionRow: Encodable {
    var day: String
    var partition: String
    var rowsEstimate: Int64?
    var bytes: Int64
    var fate: String
    var waitingDeliveries: Int64?
    var deadLetters: Int64?

    init(_ partition: PartitionPlan) {
        day = ShownTime.date(partition.day)
        self.partition = partition.name
        rowsEstimate = partition.rows
        bytes = partition.bytes
        fate = partition.fate.rawValue
        if partition.fate == .held { waitingDeliveries = partition.waiting }
        if partition.fate == .held || partition.fate == .drop { deadLetters = partition.deadLetters }
    }
}

extension PartitionPlan {
    /// The deliveries that still need it, as text.
    var neededBy: String { "\(Amount.count(waiting)) \(waiting == 1 ? "delivery" : "deliveries")" }

    /// The dead letters that keep their messages when it is dropped, as text.
    var keptDeadLetters: String {
        guard deadLetters > 0 else { return "" }
        return deadLetters == 1
            ? ", 1 dead letter keeps its message"
            : ", \(Amount.count(deadLetters)) dead letters keep their messages"
    }

    func fateInWords(_ policy: RetentionPolicy) -> String {
        switch fate {
        case .ahead: "ahead"
        case .keep: "keep until \(ShownTime.date(UTCDay(end + policy.messages - .microseconds(1))))"
        case .drop: "drop\(keptDeadLetters)"
        case .held: "held for \(neededBy)"
        }
    }
}

extension ShownTime {
    /// A day as `YYYY-MM-DD`.
    static func date(_ day: UTCDay) -> String { day.start.date }
}
