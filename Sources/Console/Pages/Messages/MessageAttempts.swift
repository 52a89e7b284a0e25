import Querying
import Vocabulary

extension MessageDetailPage.View {
    /// The handlers' attempts, including successes.
    var attempts: HTML {
        guard !detail.attempts.isEmpty else {
            let hint: HTML = """
                None was made yet, or they are older than <code>retention.attempts</code>.
                """
            return Part.card("Attempts", count: "0", Part.empty("No attempts are kept", hint))
        }
        let table = Part.table(
            "Attempts",
            detail.attempts.reversed(),
            now: now,
            [
                "started_at", "handler", "attempt", PageColumn("outcome") { Self.outcome($0.outcome) },
                PageColumn("duration_seconds") { $0.duration.map { "\(Figures.length($0))" } ?? "–" },
                PageColumn("error_group", title: "Error") { row in
                    let status: HTML = row.status.map { "<span class=\"tag\">HTTP \($0)</span> " } ?? ""
                    return "\(status)\(Part.value(row.errorGroup, .code, now: now) ?? "–")"
                },
                "worker",
            ]
        )
        return Part.card("Attempts", count: "\(detail.attempts.count)", table)
    }

    private static func outcome(_ outcome: String) -> HTML {
        switch outcome {
        case "done": Part.badge(.good, "done")
        case "retry": Part.badge(.warning, "will be retried")
        case "rejected": Part.badge(.bad, "rejected")
        case "exhausted": Part.badge(.bad, "given up")
        case "released": Part.badge(.idle, "handed back")
        default: Part.badge(.idle, outcome)
        }
    }
}
