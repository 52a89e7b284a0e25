import ArgumentParser
import MessageStore
import Postgres
import UpstreamConfiguration
import Vocabulary

struct PartitionsPolicy: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "policy",
        abstract: "Shows how long data is kept; --apply sets it to what the configuration says.",
        discussion: """
            Examples:
              upstream-worker partitions policy
              upstream-worker partitions policy --json
              upstream-worker partitions policy --apply
              upstream-worker partitions policy --apply --yes

            One policy in the database applies to all workers. A worker whose configuration keeps something longer makes \
            the policy longer when it starts; a shorter time takes effect only by --apply, which needs the rights of the \
            tables' owner. Change every worker's file first: one that starts with the longer time restores it.
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Set the policy to what the configuration says, also to shorter times.")
    var apply = false
    @Flag(help: "Do not ask before --apply makes a time shorter.")
    var yes = false
    @OptionGroup var reason: ReasonOption
    @OptionGroup var format: ObjectFormatOptions

    func run(in context: CommandContext) async throws {
        let console = context.console
        try await options.withDatabase(context) { connection, configuration in
            let retention = Retention(connection)
            let inForce = try await retention.policy()
            let wanted = configuration.retention
            let plan = try await retention.plan(under: wanted)
            try show(inForce, plan, console)
            if apply { try await set(wanted, inForce?.policy, retention, console) }
        }
    }

    private func set(
        _ wanted: RetentionPolicy,
        _ inForce: RetentionPolicy?,
        _ retention: Retention,
        _ console: Terminal
    ) async throws {
        guard inForce != wanted else { return console.message("the policy is what the configuration says") }
        if inForce?.longer(than: wanted).isEmpty == false {
            try console.confirm("Keep data for a shorter time?", yes: yes, because: "--apply makes a time shorter")
        }
        try await store(wanted, retention)
        console.message("the policy is set: the next run of retention deletes what has expired")
    }

    private func store(_ wanted: RetentionPolicy, _ retention: Retention) async throws {
        do {
            try await retention.set(wanted, by: reason.author)
        } catch {
            guard error.failureClass == .permission else { throw error }
            throw CommandFailure(
                .refused,
                "database: \(error): only the tables' owner may set the policy: connect as that "
                    + "role with --set database.url=…"
            )
        }
    }

    private func show(_ inForce: RetentionPolicyInForce?, _ plan: RetentionPlan, _ console: Terminal) throws {
        let effect = Effect(plan)
        if format.json {
            return try console.json(
                Document(
                    configured: Times(plan.policy),
                    inForce: inForce.map { Times($0.policy) },
                    setBy: inForce?.setBy,
                    setAt: (inForce?.setAt).map(ShownTime.full),
                    applyingDrops: effect
                )
            )
        }
        let rows = RetentionPolicy.configured.map { key, path in
            [
                "retention.\(key)", plan.policy[keyPath: path].unitText,
                inForce.map { $0.policy[keyPath: path].unitText } ?? "-",
            ]
        }
        console.table(TextTable(["KEY", "CONFIGURED", "IN FORCE"], rows))
        if let inForce {
            console.message("in force since \(ShownTime.short(inForce.setAt)), set by \(inForce.setBy)")
        } else {
            console.message("no policy is in force yet, so nothing is deleted; a worker's start sets it")
        }
        console.message(effect.words)
    }

    private struct Document: Encodable {
        var configured: Times
        var inForce: Times?
        var setBy: String?
        var setAt: String?
        var applyingDrops: Effect
    }

    /// What a run would delete if the configuration's policy were in force.
    private struct Effect: Encodable {
        var partitions: Int
        var rowsEstimate: Int64
        var bytes: Int64
        var ledgerRowsEstimate: Int64?
        var deadLetters: Int64
        var conflicts: Int64
        var quarantine: Int64

        init(_ plan: RetentionPlan) {
            let drop = plan.partitions(.drop)
            partitions = drop.count
            rowsEstimate = drop.reduce(0) { $0 + ($1.rows ?? 0) }
            bytes = drop.reduce(0) { $0 + $1.bytes }
            ledgerRowsEstimate = plan.ledgerExpired
            deadLetters = plan.deadLetters
            conflicts = plan.conflicts
            quarantine = plan.quarantine
        }

        var words: String {
            """
            with the configuration's policy a run would drop \(partitions) partitions, \(Amount.bytes(bytes)), \
            \(Amount.estimate(rowsEstimate)) messages; ledger rows to delete: \(Amount.estimate(ledgerRowsEstimate)), \
            dead letters: \(Amount.count(deadLetters)), conflicts: \(Amount.count(conflicts)), \
            quarantined stanzas: \(Amount.count(quarantine)). "~" marks estimates from the catalog.
            """
        }
    }

    private struct Times: Encodable {
        var messages: String
        var dedupeWindow: String
        var deadLetters: String
        var attempts: String

        init(_ policy: RetentionPolicy) {
            messages = policy.messages.unitText
            dedupeWindow = policy.dedupeWindow.unitText
            deadLetters = policy.deadLetters.unitText
            attempts = policy.attempts.unitText
        }
    }
}
