import ArgumentParser
import MessageStore
import UpstreamConfiguration
import Vocabulary

struct PartitionsRun: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Runs retention now; exit code 1 if a day is kept because deliveries still need it.",
        discussion: """
            Examples:
              upstream-worker partitions run --dry-run
              upstream-worker partitions run
              upstream-worker partitions run --force --yes

            Receiving never waits for more than 50 ms. A day's partition that is constantly being read is kept for the \
            next run: exit code 75. Nothing is deleted while this machine's clock and the database's differ by more than \
            five minutes: exit code 78.
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Show what would be done, as `plan` does.")
    var dryRun = false
    @Flag(help: "Drop expired days even where deliveries still need them; those deliveries are deleted.")
    var force = false
    @Flag(help: "Do not ask before --force deletes deliveries.")
    var yes = false
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
            let report = try await retention.run(force: force) { Self.show($0, bar, console) }
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

    private static func show(_ progress: RetentionProgress, _ bar: ProgressBar, _ console: Terminal) {
        switch progress {
        case .partition(let partition, let outcome):
            bar.clear()
            let day = partition.day.start.date
            switch outcome {
            case .dropped:
                console.message("\(day): dropped, \(Amount.bytes(partition.bytes))\(partition.keptDeadLetters)")
            case .pending: console.message("\(day): kept for \(partition.neededBy) (--force deletes them)")
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
