import MessageStore
import Vocabulary

/// The stored days, and what keeps them from being dropped.
enum RetentionPage {
    static func page(_ request: PageRequest) async throws -> HTML {
        let view = try await request.services.reader.withConnection { try await RetentionView.take($0) }
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
        let head = Part.head("Retention", "Days of messages, how much they take, and what keeps them.")
        return request.document("Retention", .retention, "\(head)\(body)")
    }

    private static func notices(_ plan: RetentionPlan) -> HTML {
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

    private static func figures(_ plan: RetentionPlan) -> HTML {
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

    private static func days(_ plan: RetentionPlan) -> HTML {
        let largest = max(1, plan.partitions.map(\.bytes).max() ?? 1)
        return Part.table(
            "Days",
            plan.partitions.reversed(),
            now: plan.now,
            [
                PageColumn("day") { "<span class=\"mono tight\">\($0.day.start.date)</span>" },
                PageColumn("bytes", title: "Size") { "\(Figures.bytes($0.bytes))" },
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
