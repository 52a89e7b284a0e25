import ArgumentParser
import MessageStore
import Postgres
import Telemetry
import Vocabulary
import Worker

extension PartitionsCommand {
    /// `partitions policy`.
    struct Policy: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows what is kept for how long, and makes it what the configuration says.",
            discussion: """
                Examples:
                  upstream-worker partitions policy
                  upstream-worker partitions policy --json
                  upstream-worker partitions policy --apply
                  upstream-worker partitions policy --apply --yes

                One policy in the database holds for all workers. A worker whose configuration keeps something longer makes \
                the policy longer when it starts; a shorter time takes effect only by --apply, which needs the rights of the \
                tables' owner. Change every worker's file before: one that starts with the longer time brings it back.
                """
        )

        @OptionGroup var options: CommonOptions
        @Flag(help: "Set the policy to what the configuration says, to shorter times as well.")
        var apply = false
        @Flag(help: "Do not ask before --apply makes a time shorter.")
        var yes = false
        @Flag(help: "One JSON object instead of a table.")
        var json = false

        func run() async throws {
            try await options.withDatabase { connection, configuration in
                let retention = Retention(connection)
                let inForce = try await retention.policy()
                let wanted = configuration.retention
                let plan = try await retention.plan(under: wanted)
                try show(inForce, plan)
                if apply { try await set(wanted, inForce?.policy, retention) }
            }
        }

        private func set(_ wanted: RetentionPolicy, _ inForce: RetentionPolicy?, _ retention: Retention) async throws {
            guard inForce != wanted else { return Console.message("the policy is what the configuration says") }
            if inForce?.longer(than: wanted).isEmpty == false, !yes { try confirm() }
            try await Self.store(wanted, retention)
            Console.message("the policy is set: the next run of retention deletes what is past it")
        }

        private static func store(_ wanted: RetentionPolicy, _ retention: Retention) async throws {
            do {
                try await retention.set(wanted)
            } catch {
                guard error.failureClass == .permission else { throw error }
                throw CommandFailure(
                    .refused,
                    "database: \(error): only the tables' owner may set the policy: "
                        + "--set database.url=… connects as another role"
                )
            }
        }

        private func confirm() throws {
            guard let answer = Console.ask("Make the policy shorter?") else {
                throw CommandFailure(.usage, "--apply makes a time shorter: add --yes where nobody can be asked")
            }
            guard answer else { throw CommandFailure(.negative, "nothing was changed") }
        }

        private func show(_ inForce: RetentionPolicyInForce?, _ plan: RetentionPlan) throws {
            let drop = plan.partitions(.drop)
            let effect = Effect(
                partitions: drop.count,
                rowsEstimate: drop.reduce(0) { $0 + ($1.rows ?? 0) },
                bytes: drop.reduce(0) { $0 + $1.bytes },
                ledgerRowsEstimate: plan.ledgerExpired,
                deadLetters: plan.deadLetters,
                conflicts: plan.conflicts,
                quarantine: plan.quarantine
            )
            if json {
                return try Console.json(
                    Document(
                        configured: Times(plan.policy),
                        inForce: inForce.map { Times($0.policy) },
                        setBy: inForce?.setBy,
                        setAt: inForce.map { Timestamp(microseconds: $0.setAt).rfc3339 },
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
            Console.data(Console.table([["KEY", "CONFIGURED", "IN FORCE"]] + rows))
            if let inForce {
                let time = Timestamp(microseconds: inForce.setAt).rfc3339
                Console.message("in force since \(time), set by \(inForce.setBy)")
            } else {
                Console.message("no policy is in force yet, so nothing is deleted; a worker's start sets it")
            }
            Console.message(
                """
                by the configuration a run would drop \(effect.partitions) partitions, \(Amount.bytes(effect.bytes)), \
                ~\(Amount.count(effect.rowsEstimate)) messages; ids to forget: \
                \(effect.ledgerRowsEstimate.map { "~" + Amount.count($0) } ?? "?"), \
                dead letters: \(Amount.count(effect.deadLetters)), conflicts: \(Amount.count(effect.conflicts)), \
                quarantined stanzas: \(Amount.count(effect.quarantine)). "~" marks estimates from the catalog.
                """
            )
        }

        private struct Document: Encodable {
            var configured: Times
            var inForce: Times?
            var setBy: String?
            var setAt: String?
            var applyingDrops: Effect
        }

        /// What a run would take if the configuration's policy were in force.
        private struct Effect: Encodable {
            var partitions: Int
            var rowsEstimate: Int64
            var bytes: Int64
            var ledgerRowsEstimate: Int64?
            var deadLetters: Int64
            var conflicts: Int64
            var quarantine: Int64
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
}
