import Hummingbird
import MessageStore
import Vocabulary

/// The stored days, and what keeps them from being dropped.
struct RetentionPage: ConsoleRoutes {
    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("retention") { [self] request in try await page(request) }
    }

    private func page(_ request: PageRequest) async throws -> HTML {
        let (force, plan, last) = try await services.reader.withConnection { connection in
            let retention = Retention(connection)
            guard let force = try await retention.policy() else {
                return (RetentionPolicyInForce?.none, RetentionPlan?.none, Timestamp?.none)
            }
            return (
                force, try await retention.plan(under: force.policy, counted: 10_000), try await retention.lastRun()
            )
        }
        let shell = PageShell("Retention", .retention, for: request)
        let head = Part.head("Retention", "Days of messages, how much they take, and what keeps them.")
        guard let force, let plan else {
            let hint: HTML = """
                A worker's start sets it from <code>retention:</code> in its configuration; until then nothing is deleted.
                """
            return shell.document("\(head)\(Part.card("Policy", Part.empty("No policy is in force yet", hint)))")
        }
        return shell.document(
            """
            \(head)\(notices(plan))
            <div class="figures">\(figures(plan))</div>
            \(Part.card("Days", count: Figures.count(plan.partitions.count), days(plan)))
            \(Part.card("Policy", policy(force, plan, last)))
            """
        )
    }

    private func notices(_ plan: RetentionPlan) -> HTML {
        var notices = HTML()
        let held = plan.partitions(.held)
        if !held.isEmpty {
            notices += Part.notice(
                .warning,
                """
                <strong>\(Figures.count(held.count, "day")) can't go</strong>, because deliveries still need the messages. \
                See <a href="/deliveries">what waits</a>, or resume the handler.
                """
            )
        }
        if !plan.missing.isEmpty {
            notices += Part.notice(
                .bad,
                """
                <strong>\(Figures.count(plan.missing.count, "day")) ahead \(plan.missing.count == 1 ? "has" : "have") no partition.</strong> \
                A worker makes them; run <code>upstream-worker partitions run</code> if none does.
                """
            )
        }
        return notices
    }

    private func figures(_ plan: RetentionPlan) -> HTML {
        let kept = plan.partitions.filter { $0.fate != .ahead }
        let bytes = kept.reduce(0) { $0 + $1.bytes }
        let due = plan.partitions(.drop)
        return [
            Part.figure("Messages on disk", Figures.bytes(bytes), "over \(Figures.count(kept.count, "day"))"),
            Part.figure(
                "Due to go",
                Figures.count(due.count, "day"),
                "\(Figures.bytes(due.reduce(0) { $0 + $1.bytes }))"
            ),
            Part.figure("Ledger", Figures.estimate(plan.ledgerRows), "\(Figures.estimate(plan.ledgerExpired)) too old"),
            Part.figure(
                "Odd ones too old",
                Figures.count(plan.conflicts + plan.quarantine + plan.deadLetters),
                "conflicts, quarantine, dead letters"
            ),
        ].reduce(HTML(), +)
    }

    private func days(_ plan: RetentionPlan) -> HTML {
        let largest = max(1, plan.partitions.map(\.bytes).max() ?? 1)
        let columns = [
            Column("Day"), Column("Size", isNumber: true), Column("Share", isHidden: true),
            Column("Messages", isNumber: true), Column("Fate"),
        ]
        let rows = plan.partitions.reversed().map { day -> [HTML] in
            let (tone, fate) = Self.fate(day, plan.policy)
            return [
                "<span class=\"mono tight\">\(day.day.start.date)</span>", "\(Figures.bytes(day.bytes))",
                Self.bar(Double(day.bytes) / Double(largest), tone),
                day.fate == .ahead ? "–" : "\(Figures.estimate(day.rows))", fate,
            ]
        }
        return Part.table("Days", columns, rows)
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
                ? " <span class=\"muted\">\(Figures.count(day.deadLetters, "dead letter")) keep their messages</span>"
                : ""
            return ("bad", "\(Part.badge(.bad, "due"))\(letters)")
        case .held:
            return (
                "warning",
                """
                \(Part.badge(.warning, "held")) <a href="/deliveries">\(Figures.count(day.waiting, "delivery", "deliveries"))</a> still need it
                """
            )
        }
    }

    private func policy(_ force: RetentionPolicyInForce, _ plan: RetentionPlan, _ last: Timestamp?) -> HTML {
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
