import ArgumentParser
import MessageStore
import Postgres
import UpstreamConfiguration
import Vocabulary

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
