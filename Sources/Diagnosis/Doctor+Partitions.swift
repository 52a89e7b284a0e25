import MessageStore
import Postgres
import Vocabulary

/// Checks partitions, retention, and the disk.
extension Doctor {
    /// Days without a partition, from the catalog alone: found however long counting takes.
    func partitions(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let days = try await Retention(connection).days()
        let today = UTCDay(days.now)
        func isMissing(_ day: Int64) -> Bool { days.missing.contains(UTCDay(number: day)) }
        var ahead = 0
        while ahead < 7, !isMissing(today.number + Int64(ahead) + 1) { ahead += 1 }
        diagnosis.note("partitions", "\(days.count), \(ahead) days ahead")
        if isMissing(today.number) {
            diagnosis.find(
                .noPartitionToday,
                "today (UTC) has no partition: nothing can be stored or acked",
                fix: "upstream-worker partitions run, which makes the days from yesterday to a week ahead"
            )
        } else if ahead < limits.daysAhead {
            diagnosis.find(
                .noPartitionsAhead,
                "partitions reach \(Amount.counted(ahead, "day")) ahead: after that nothing can be stored or acked",
                fix: "upstream-worker partitions run; and see why no worker does it: retention.failed in its log"
            )
        }
    }

    /// The bound on counting the last hour's messages; beyond it their rate is that of so many.
    private static let countedMessages = 100_000

    /// What retention would do under the policy in force, or under the default if there is none.
    typealias Plan = (isInForce: Bool, plan: RetentionPlan)

    /// What retention would do; made once, since it counts what still needs expired days.
    func plan(_ diagnosis: inout Diagnosis) async throws(PostgresError) -> Plan {
        let retention = Retention(connection)
        let policy = try await retention.policy()?.policy
        return (policy != nil, try await retention.plan(under: policy ?? Self.usualPolicy, counted: Self.counted))
    }

    /// The configuration's defaults, for when no policy is in force.
    private static let usualPolicy = RetentionPolicy(
        messages: .seconds(30 * 86_400),
        dedupeWindow: .seconds(35 * 86_400)
    )

    /// The free disk space, and how long it lasts at the rate of the last hour and of the last days.
    func disk(_ known: Plan, _ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let ledger = try await rows(DoctorStatements.ledger, as: Int64.self)
        let statement = DoctorStatements.lastHour(counted: Self.countedMessages)
        let hour = try await rows(statement, as: (Int, Double).self)
        let growth = DiskGrowth(known.plan, ledger: ledger.first ?? 0, hour: hour.first ?? (0, 0))
        diagnosis.note(
            "growth",
            "\(Amount.bytes(growth.perDay)) a day, until \(Amount.bytes(growth.atMost)) are held; "
                + "\(Amount.bytes(growth.perHour)) in the last hour"
        )
        switch try await DatabaseDisk.look(connection, freeSpace: freeSpace) {
        case .hidden:
            diagnosis.skip(
                "free disk space",
                "this role may not see where the server keeps its data: GRANT pg_read_all_settings to it, or compare the "
                    + "growth above with the server's free space"
            )
        case .elsewhere(let folder):
            diagnosis.skip("free disk space", "the server's folder \(folder) is not on this machine: run doctor there")
        case .seen(let space):
            diagnosis.note("free disk space", Amount.bytes(space.free))
            judge(space, growth, &diagnosis)
        }
    }

    private func judge(_ space: DatabaseDisk.Space, _ growth: DiskGrowth, _ diagnosis: inout Diagnosis) {
        let free = "\(Amount.bytes(space.free)) \(space.free == 1 ? "is" : "are") free at \(space.folder)"
        let fix =
            "a larger disk; remove what is not PostgreSQL's from it, and see the findings about slots; or a shorter "
            + "retention.messages and upstream-worker partitions policy --apply"
        if space.free < limits.diskFloor.critical {
            let end = "\(space.free == 0 ? "nothing" : "soon nothing more") can be stored or acked"
            return diagnosis.find(
                .diskNearlyFull,
                "the disk is \(space.free == 0 ? "" : "nearly ")full: \(free); \(end)",
                fix: fix
            )
        }
        let hours = growth.perHour > 0 ? Double(space.free) / Double(growth.perHour) : .infinity
        if hours * 3_600 <= limits.diskHours.inSeconds {
            return diagnosis.find(
                .diskNearlyFull,
                "the disk is full in \(Amount.time(hours * 3_600)) at the pace of the last hour: \(free), and messages took "
                    + "\(Amount.bytes(growth.perHour)) in it",
                fix: fix
            )
        }
        let days =
            growth.perDay > 0 && growth.toCome > space.free ? Double(space.free) / Double(growth.perDay) : .infinity
        if days <= limits.diskDays.warning {
            return diagnosis.find(
                days <= limits.diskDays.critical ? .diskNearlyFull : .diskFilling,
                "the disk is full in \(Amount.time(days * 86_400)): \(free), messages take "
                    + "\(Amount.bytes(growth.perDay)) a day and \(Amount.bytes(growth.toCome)) more until retention holds as "
                    + "much as it will",
                fix: fix
            )
        }
        if space.free < limits.diskFloor.warning {
            diagnosis.find(.diskFilling, "the disk is filling: \(free)", fix: fix)
        }
    }

    /// The policy, the last run, and the days held back.
    func retention(_ known: Plan, _ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let plan = known.plan
        guard known.isInForce else {
            return diagnosis.find(
                .noPolicy,
                "no retention policy is in force: nothing is ever deleted",
                fix: "start a worker, which sets it; or upstream-worker partitions policy --apply"
            )
        }
        let last = try await Retention(connection).lastRun()
        diagnosis.note("last run of retention", last?.shown ?? "none yet")
        if last.map({ plan.now - $0 >= limits.retention }) ?? !plan.partitions(.drop).isEmpty {
            diagnosis.find(
                .retentionLate,
                last.map { "the last complete run of retention was \(Amount.time((plan.now - $0).inSeconds)) ago" }
                    ?? "retention has never run to its end, and there are days to drop",
                fix: "upstream-worker partitions run; workers do it once each UTC day, and log retention.failed or "
                    + "clock.differs where they can't"
            )
        }
        let held = plan.partitions(.held)
        if let end = held.map(\.end).max() {
            let holders = try await Retention(connection).holders(before: end, counted: Self.counted)
                .map { "\($0.name) (\(Amount.count($0.count)))" }
            let days = held.map { $0.day.start.date }
            diagnosis.find(
                .retentionHeld,
                "\(Amount.counted(held.count, "expired day")) can't be dropped (\(Said.names(days))), since deliveries need "
                    + "them: \(holders.joined(separator: ", "))",
                fix:
                    "let handlers catch up (upstream-worker deliveries list) and replays end (upstream-worker replay status), "
                    + "cancel what is given up (deliveries cancel --until …, replay cancel), or partitions run --force, which "
                    + "leaves what replays need"
            )
        }
        if try await rows(DoctorStatements.hasUndatedAttempts, as: Bool.self).first == true {
            diagnosis.find(
                .attemptsUndated,
                "attempts lie in upstream.attempt_batches_rest: their days have no partition",
                fix: "start a worker, which makes today's and moves them; see retention.failed in its log"
            )
        }
    }
}

/// How much space messages take, estimated from the last days.
struct DiskGrowth {
    /// Bytes of the last hour's messages, estimated from their number and the size of others.
    var perHour: Int64 = 0
    /// Bytes of one day: the mean of up to seven complete days, with the ledger's share.
    var perDay: Int64 = 0
    /// Bytes that will be added until each new day displaces an old one.
    var toCome: Int64 = 0
    /// Bytes in use then.
    var atMost: Int64 = 0

    init(_ plan: RetentionPlan, ledger: Int64, hour: (messages: Int, seconds: Double)) {
        let today = UTCDay(plan.now)
        let counted = plan.partitions.filter { $0.rows ?? 0 > 0 }
        let (rows, bytes) = (counted.reduce(0) { $0 + ($1.rows ?? 0) }, counted.reduce(0) { $0 + $1.bytes })
        if rows > 0, hour.seconds > 0 {
            let each = Double(bytes + ledger) / Double(rows)
            perHour = Int64(min(each * Double(hour.messages) / hour.seconds * 3_600, 9e18))
        }
        // The size of an empty day says nothing.
        let over = plan.partitions.filter { $0.end <= plan.now && $0.bytes > 1 << 20 }
        let recent = over.filter { $0.day.number >= today.number - 7 }
        let held = over.reduce(0) { $0 + $1.bytes }
        guard !recent.isEmpty, held > 0 else { return }
        let withLedger = 1 + Double(ledger) / Double(held)
        let share = Double(recent.reduce(0) { $0 + $1.bytes }) / Double(recent.count)
        perDay = Int64(share * withLedger)
        let days = plan.policy.messages.inSeconds / 86_400
        atMost = Int64(min(Double(perDay) * (days + 1), 9e18))
        toCome = max(0, atMost - Int64(Double(held) * withLedger))
    }
}
