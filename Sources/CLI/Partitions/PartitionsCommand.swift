import ArgumentParser
import MessageStore
import Postgres
import UpstreamConfiguration
import Vocabulary

struct PartitionsCommand: DescribedCommand {
    static let manual = """
        partitions: Shows the daily partitions and what retention does with them; runs retention; sets its policy.
          upstream-worker partitions plan
          upstream-worker partitions plan --json
          upstream-worker partitions run
          upstream-worker partitions run --force   # also days that deliveries need
          upstream-worker partitions policy        # how long data is kept

        `run` creates the partitions from yesterday to a week ahead, drops days past retention.messages with conflicts \
        and quarantined stanzas of that age, deletes dead letters past retention.dead_letters, and deletes ledger rows \
        past retention.dedupe_window. Workers do the same once a day, a while after midnight UTC. The policy in the \
        database and the database's clock decide.
        """
    static let subcommands: Subcommands = [PartitionsPlan.self, PartitionsRun.self, PartitionsPolicy.self]
}

struct PartitionsPlan: ProgramCommand {
    static let manual = """
        plan: Shows every day's partition and what `run` would do; changes nothing.
          upstream-worker partitions plan
          upstream-worker partitions plan --json

        Row counts are estimates from PostgreSQL's catalog; sizes are exact and include indexes.
        """

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
    var members: JSONMembers {
        let isHeld = fate == .held
        return [
            "day": self.day.start.date, "partition": self.name, "rows_estimate": self.rows, "bytes": self.bytes,
            "fate": fate.rawValue,
            "waiting_deliveries": isHeld ? waiting : nil,
            "dead_letters": isHeld || fate == .drop ? deadLetters : nil,
        ]
    }

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
        case .keep: "keep until \((self.end + policy.messages - .microseconds(1)).date)"
        case .drop: "drop\(keptDeadLetters)"
        case .held: "held for \(neededBy)"
        }
    }
}

struct PartitionsRun: ProgramCommand {
    static let manual = """
        run: Runs retention now; exit code 1 if a day is kept because deliveries still need it.
          upstream-worker partitions run --dry-run
          upstream-worker partitions run
          upstream-worker partitions run --force --yes

        Receiving never waits for more than 50 ms. A day's partition that is constantly being read is kept for the \
        next run: exit code 75. Nothing is deleted while this machine's clock and the database's differ by more than \
        five minutes: exit code 78.
        """

    @OptionGroup var options: CommonOptions
    @Flag(help: "Show what would be done, as `plan` does.") var dryRun = false
    @Flag(help: "Drop expired days even where deliveries still need them; those deliveries are deleted.")
    var force = false
    @Flag(help: "Do not ask before --force deletes deliveries.") var yes = false
    @OptionGroup var reason: ReasonOption
    @OptionGroup var format: ObjectFormatOptions

    func run(in context: CommandContext) async throws {
        let console = context.console
        try await options.withDatabase(context) { connection, configuration in
            if dryRun {
                return try await PartitionsPlan.show(connection, configuration.retention, json: format.json, console)
            }
            let retention = Retention(connection)
            if force { try await confirm(retention, console) }
            let bar = ProgressBar("retention", on: console)
            let subject = force ? "retention, by force" : "retention"
            try await AuditLog.record(over: connection, .runRetention, subject, by: reason.author)
            let report = try await retention.run(force: force, samples: configuration.samples) {
                Self.show($0, isForced: force, bar, console)
            }
            bar.clear()
            try await AuditLog.record(
                over: connection,
                .runRetention,
                "\(subject): partitions dropped",
                count: report.dropped.count,
                by: reason.author,
                isEnd: true
            )
            if let refusal = report.refusal { throw Self.failure(refusal) }
            if format.json { try console.json(Self.members(report)) } else { Self.show(report, console) }
            try Self.judge(report)
        }
    }

    private static func failure(_ refusal: RetentionRefusal) -> CommandFailure {
        switch refusal {
        case .clock(let difference):
            CommandFailure(
                .configuration,
                "\(difference.description): nothing was deleted. Set the wrong clock, then run it again"
            )
        case .noPolicy:
            CommandFailure(
                .temporaryFailure,
                "there is no retention policy in this database yet: nothing was deleted. Start a worker, or set the policy "
                    + "with `partitions policy --apply`"
            )
        }
    }

    private func confirm(_ retention: Retention, _ console: Terminal) async throws {
        guard !yes, let inForce = try await retention.policy() else { return }
        let held = try await retention.plan(under: inForce.policy).partitions(.held)
        guard !held.isEmpty else { return }
        for partition in held { console.message("\(partition.day.start.date): \(partition.neededBy)") }
        try console.confirm(
            "Delete these deliveries, with the messages of their days?",
            yes: yes,
            because: "--force deletes deliveries"
        )
    }

    private static func show(
        _ progress: RetentionProgress,
        isForced: Bool,
        _ bar: ProgressBar,
        _ console: Terminal
    ) {
        switch progress {
        case .partition(let partition, let outcome):
            bar.clear()
            let day = partition.day.start.date
            switch outcome {
            case .dropped:
                console.message("\(day): dropped, \(Amount.bytes(partition.bytes))\(partition.keptDeadLetters)")
            case .pending:
                let remark =
                    isForced ? "of replays or at work: --force leaves them" : "(--force deletes those of no replay)"
                console.message("\(day): kept for \(partition.neededBy) \(remark)")
            case .locked: console.message("\(day): kept: the table is constantly being read; try again later")
            case .absent, .busy: break
            }
        case .ledger(let block, let all, let deleted):
            bar.show(block, of: all, "ledger: \(Amount.count(deleted)) rows deleted")
        case .odd(let deleted):
            bar.show(Int64(deleted), of: nil, "conflicts, quarantined stanzas and dead letters")
        }
    }

    private static func members(_ report: RetentionReport) -> JSONMembers {
        [
            "created": report.created, "dropped": report.dropped.map(\.members), "held": report.held.map(\.members),
            "locked": report.locked.map(\.members), "deliveries_given_up": report.deliveries,
            "dead_letters_kept": report.deadLettersKept, "dead_letters_deleted": report.deadLetters,
            "ledger_rows_deleted": report.ledger, "conflicts_deleted": report.conflicts,
            "quarantine_deleted": report.quarantine, "attempt_days_dropped": report.attemptDays,
            "complete": report.isComplete,
        ]
    }

    private static func show(_ report: RetentionReport, _ console: Terminal) {
        let freed = Amount.bytes(report.dropped.reduce(0) { $0 + $1.bytes })
        let lines = [
            ("partitions created", report.created, ""), ("partitions dropped", report.dropped.count, ", " + freed),
            ("partitions kept, still needed", report.held.count, ""),
            ("partitions kept, in use", report.locked.count, ""), ("deliveries given up", report.deliveries, ""),
            ("dead letters of dropped days, kept", report.deadLettersKept, ""),
            ("dead letters deleted", report.deadLetters, ""), ("ledger rows deleted", report.ledger, ""),
            ("conflicts deleted", report.conflicts, ""), ("quarantined stanzas deleted", report.quarantine, ""),
            ("days of attempts dropped", report.attemptDays, ""),
        ]
        console.facts(FactList(lines.map { ($0, Amount.count($1) + $2) }))
    }

    /// Throws the command's exit code unless it is 0.
    static func judge(_ report: RetentionReport) throws {
        if report.isBusy {
            throw CommandFailure(.temporaryFailure, "a worker is running retention now and does the rest")
        }
        if !report.locked.isEmpty || report.attemptDaysLocked > 0 { throw CommandFailure(.temporaryFailure) }
        if !report.held.isEmpty { throw CommandFailure(.negative) }
    }
}

struct PartitionsPolicy: ProgramCommand {
    static let manual = """
        policy: Shows how long data is kept; --apply sets it to what the configuration says.
          upstream-worker partitions policy
          upstream-worker partitions policy --json
          upstream-worker partitions policy --apply
          upstream-worker partitions policy --apply --yes

        One policy in the database applies to all workers. A worker whose configuration keeps something longer makes \
        the policy longer when it starts; a shorter time takes effect only by --apply, which needs the rights of the \
        tables' owner. Change every worker's file first: one that starts with the longer time restores it.
        """

    @OptionGroup var options: CommonOptions
    @Flag(help: "Set the policy to what the configuration says, also to shorter times.") var apply = false
    @Flag(help: "Do not ask before --apply makes a time shorter.") var yes = false
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
            guard apply else { return }
            guard inForce?.policy != wanted else {
                return console.message("the policy is what the configuration says")
            }
            if inForce?.policy.longer(than: wanted).isEmpty == false {
                try console.confirm("Keep data for a shorter time?", yes: yes, because: "--apply makes a time shorter")
            }
            do throws(PostgresError) {
                try await retention.set(wanted, by: reason.author)
            } catch  where error.failureClass == .permission {
                throw CommandFailure(notOwner: error, may: "set the policy")
            }
            console.message("the policy is set: the next run of retention deletes what has expired")
        }
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
