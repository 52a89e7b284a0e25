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
        do {
            try await retention.set(wanted, by: reason.author)
        } catch  where error.failureClass == .permission {
            throw CommandFailure(notOwner: error, may: "set the policy")
        }
        console.message("the policy is set: the next run of retention deletes what has expired")
    }

    private func show(_ inForce: RetentionPolicyInForce?, _ plan: RetentionPlan, _ console: Terminal) throws {
        let drop = plan.partitions(.drop)
        let (rows, bytes) = (drop.reduce(0) { $0 + ($1.rows ?? 0) }, drop.reduce(0) { $0 + $1.bytes })
        if format.json {
            let effect: JSONMembers = [
                "partitions": drop.count, "rows_estimate": rows, "bytes": bytes,
                "ledger_rows_estimate": plan.ledgerExpired, "dead_letters": plan.deadLetters,
                "conflicts": plan.conflicts, "quarantine": plan.quarantine,
            ]
            return try console.json(object: [
                "configured": Self.times(plan.policy), "in_force": inForce.map { Self.times($0.policy) },
                "set_by": inForce?.setBy, "set_at": inForce?.setAt.rfc3339, "applying_drops": effect,
            ])
        }
        let times = RetentionPolicy.configured.map { key, path in
            [
                "retention.\(key)", plan.policy[keyPath: path].unitText,
                inForce.map { $0.policy[keyPath: path].unitText } ?? "-",
            ]
        }
        console.table(TextTable(["KEY", "CONFIGURED", "IN FORCE"], times))
        if let inForce {
            console.message("in force since \(inForce.setAt.shown), set by \(inForce.setBy)")
        } else {
            console.message("no policy is in force yet, so nothing is deleted; a worker's start sets it")
        }
        console.message(
            """
            with the configuration's policy a run would drop \(drop.count) partitions, \(Amount.bytes(bytes)), \
            \(Amount.estimate(rows)) messages; ledger rows to delete: \(Amount.estimate(plan.ledgerExpired)), \
            dead letters: \(Amount.count(plan.deadLetters)), conflicts: \(Amount.count(plan.conflicts)), \
            quarantined stanzas: \(Amount.count(plan.quarantine)). "~" marks estimates from the catalog.
            """
        )
    }

    private static func times(_ policy: RetentionPolicy) -> [String: String] {
        Dictionary(RetentionPolicy.configured.map { ($0.key, policy[keyPath: $0.path].unitText) }) { $1 }
    }
}
