import MessageStore
import Postgres
import Resources
import Vocabulary

/// `GET partitions`, and its page: the stored days, and what keeps them from being dropped.
enum RetentionPart {
    static let part = ConsolePart(
        section: Section("Retention", "/retention", "M4 6h16v4H4zM6 10v10h12V10M10 14h4"),
        endpoints: [
            .get("listPartitions", "partitions", "The days that are kept, and the policy.", one: RetentionView.take)
        ],
        pages: [Page(path: "retention", make: page)]
    )

    private static func page(_ request: PageRequest) async throws -> HTML {
        let (view, asked) = try await request.look { connection in
            (try await RetentionView.take(connection), try await MaintenanceRequests.list(connection, limit: 20))
        }
        let plan = view.plan
        let hint: HTML = """
            A worker's start sets it from <code>retention:</code> in its configuration; until then nothing is deleted.
            """
        let body: HTML =
            view.policy.map { force in
                """
                \(notices(plan))
                <div class="figures">\(figures(plan))</div>
                \(Part.card("Days", count: Figures.count(plan.partitions.count), days(plan)))
                \(Part.card("Policy", policy(force, plan, view.lastRun)))
                """
            } ?? Part.card("Policy", Part.empty("No policy is in force yet", hint))
        let head = Part.head(
            "Retention",
            "Days of messages, how much they take, and what keeps them.",
            actions: HTML.when(request.mayAct && view.policy != nil, MaintenancePart.runDialog)
        )
        let requests = MaintenancePart.card(asked.map { $0.shown(to: request.sight) }, now: plan.now)
        return request.document(
            "Retention",
            refresh: asked.contains { $0.finishedAt == nil } ? 10 : nil,
            "\(head)<div id=\"asked\" data-live>\(requests)</div>\(body)"
        )
    }

    private static func notices(_ plan: RetentionPlan) -> HTML {
        var notices = HTML()
        let held = plan.partitions(.held)
        if !held.isEmpty {
            notices += Part.notice(
                .warning,
                """
                <strong>\(Amount.counted(held.count, "day")) can't go</strong>, because deliveries still need the messages. \
                See <a href="/deliveries">what waits</a>, or resume the handler.
                """
            )
        }
        if !plan.missing.isEmpty {
            notices += Part.notice(
                .bad,
                """
                <strong>\(Amount.counted(plan.missing.count, "day")) ahead \(plan.missing.count == 1 ? "has" : "have") no partition.</strong> \
                A worker makes them; run <code>upstream-worker partitions run</code> if none does.
                """
            )
        }
        return notices
    }

    private static func figures(_ plan: RetentionPlan) -> HTML {
        let kept = plan.partitions.filter { $0.fate != .ahead }
        let bytes = kept.reduce(0) { $0 + $1.bytes }
        let due = plan.partitions(.drop)
        return [
            Part.figure("Messages on disk", Amount.bytes(bytes), "over \(Amount.counted(kept.count, "day"))"),
            Part.figure(
                "Due to go",
                Amount.counted(due.count, "day"),
                "\(Amount.bytes(due.reduce(0) { $0 + $1.bytes }))"
            ),
            Part.figure("Ledger", Figures.estimate(plan.ledgerRows), "\(Figures.estimate(plan.ledgerExpired)) too old"),
            Part.figure(
                "Odd ones too old",
                Figures.count(plan.conflicts + plan.quarantine + plan.deadLetters),
                "conflicts, quarantine, dead letters"
            ),
        ].reduce(HTML(), +)
    }

    private static func days(_ plan: RetentionPlan) -> HTML {
        let largest = max(1, plan.partitions.map(\.bytes).max() ?? 1)
        return Part.table(
            "Days",
            // What lies ahead holds nothing yet, and so comes last.
            plan.partitions.filter { $0.fate != .ahead }.reversed() + plan.partitions(.ahead),
            now: plan.now,
            [
                PageColumn("day") { "<span class=\"mono tight\">\($0.day.start.date)</span>" },
                PageColumn("bytes", title: "Size") { "\(Amount.bytes($0.bytes))" },
                .actions("Share") { bar(Double($0.bytes) / Double(largest), fate($0, plan.policy).0) },
                PageColumn("rows_estimate", title: "Messages") {
                    $0.fate == .ahead ? "–" : "\(Figures.estimate($0.rows))"
                },
                PageColumn("fate") { fate($0, plan.policy).1 },
            ]
        )
    }

    private static func bar(_ share: Double, _ tone: HTML) -> HTML {
        let width = Int((min(1, max(0, share)) * 1000).rounded())
        return """
            <svg class="day-bar \(tone)" viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true">\
            <rect class="ground" width="1000" height="12" rx="3"/><rect width="\(width)" height="12" rx="3"/></svg>
            """
    }

    private static func fate(_ day: PartitionPlan, _ policy: RetentionPolicy) -> (HTML, HTML) {
        switch day.fate {
        case .ahead: return ("idle", Part.badge(.idle, "ahead"))
        case .keep:
            let until = (day.end + policy.messages - .microseconds(1)).date
            return ("", "\(Part.badge(.good, "kept")) <span class=\"muted tight\">until \(until)</span>")
        case .drop:
            let letters: HTML =
                day.deadLetters > 0
                ? " <span class=\"muted\">\(Amount.counted(day.deadLetters, "dead letter")) keep their messages</span>"
                : ""
            return ("bad", "\(Part.badge(.bad, "due"))\(letters)")
        case .held:
            return (
                "warning",
                """
                \(Part.badge(.warning, "held")) <a href="/deliveries">\(Amount.counted(day.waiting, "delivery", plural: "deliveries"))</a> still need it
                """
            )
        }
    }

    private static func policy(_ force: RetentionPolicyInForce, _ plan: RetentionPlan, _ last: Timestamp?) -> HTML {
        let policy = force.policy
        return Part.facts([
            ("Messages", "\(policy.messages.unitText)"), ("Ledger of known ids", "\(policy.dedupeWindow.unitText)"),
            ("Dead letters", "\(policy.deadLetters.unitText)"),
            ("Attempts", policy.attempts == .zero ? "not kept" : "\(policy.attempts.unitText)"),
            ("Set", "\(Part.age(force.setAt, now: plan.now)) by \(force.setBy)"),
            ("Last run", last.map { Part.age($0, now: plan.now) } ?? "never"),
        ])
    }
}

/// The stored days and the retention policy.
struct RetentionView: Sendable {
    /// What the next run would do; without a policy nothing is too old.
    var plan: RetentionPlan
    /// The policy in force, with its author.
    var policy: RetentionPolicyInForce?
    var lastRun: Timestamp?

    /// Reads the current state; counts stop at ``Overview/countLimit``.
    static func take(_ connection: PostgresConnection) async throws(PostgresError) -> RetentionView {
        let retention = Retention(connection)
        let policy = try await retention.policy()
        let forever = RetentionPolicy(messages: .seconds(3_000 * 86_400), dedupeWindow: .seconds(3_000 * 86_400))
        let plan = try await retention.plan(under: policy?.policy ?? forever, counted: Overview.countLimit)
        return RetentionView(plan: plan, policy: policy, lastRun: try await retention.lastRun())
    }
}

extension PartitionPlan: ShownResource {
    static let resource = "Day"
    static let fields: [Field<PartitionPlan>] = [
        Field("day") { $0.day.start.date },
        Field("name") { $0.name },
        Field("rows_estimate") { $0.rows },
        Field("bytes") { $0.bytes },
        Field("fate") { $0.fate.rawValue },
        Field("waiting_deliveries") { $0.waiting },
        Field("dead_letters") { $0.deadLetters },
    ]
}

extension RetentionView: ShownResource {
    static let resource = "Partitions"
    static let fields: [Field<RetentionView>] = [
        Field("items") { $0.plan.partitions },
        Field("next") { _ in String?.none },
        Field("missing") { $0.plan.missing.map(\.start.date) },
        Field("policy") { $0.policy },
        Field("expired") { Expired(plan: $0.plan) },
        Field("last_run_at") { $0.lastRun },
    ]

    struct Expired: ShownResource {
        var plan: RetentionPlan

        static let resource = "Expired"
        static let fields: [Field<Expired>] = [
            Field("conflicts") { $0.plan.conflicts }, Field("quarantine") { $0.plan.quarantine },
            Field("dead_letters") { $0.plan.deadLetters },
            Field("ledger_estimate") { $0.plan.ledgerExpired }, Field("counted_to") { _ in Overview.countLimit },
        ]
    }
}

extension RetentionPolicyInForce: ShownResource {
    static let resource = "Policy"
    static let fields: [Field<RetentionPolicyInForce>] = [
        Field("messages_seconds") { $0.policy.messages.inSeconds },
        Field("dedupe_window_seconds") { $0.policy.dedupeWindow.inSeconds },
        Field("dead_letters_seconds") { $0.policy.deadLetters.inSeconds },
        Field("attempts_seconds") { $0.policy.attempts.inSeconds }, Field("set_by") { $0.setBy },
        Field("set_at") { $0.setAt },
    ]
}
