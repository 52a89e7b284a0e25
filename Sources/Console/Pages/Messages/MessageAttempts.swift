import Querying

extension MessageDetailPage.View {
    /// The handlers' attempts, including successes.
    var attempts: HTML {
        guard !detail.attempts.isEmpty else {
            let hint: HTML = """
                None was made yet, or they are older than <code>retention.attempts</code>.
                """
            return Part.card("Attempts", count: "0", Part.empty("No attempts are kept", hint))
        }
        let columns = [
            Column("Started"), Column("Handler"), Column("No.", isNumber: true), Column("Outcome"),
            Column("Took", isNumber: true), Column("Error"), Column("Worker"),
        ]
        let rows = detail.attempts.reversed().map { row -> [HTML] in
            let status: HTML = row.status.map { "<span class=\"tag\">HTTP \($0)</span> " } ?? ""
            let error: HTML =
                row.errorGroup.map { "<span class=\"mono\">\(stranger: $0.shortened(200))</span>" }
                ?? "<span class=\"muted\">–</span>"
            return [
                "\(Part.time(row.startedAt))<span class=\"sub\">\(Part.age(row.startedAt, now: now))</span>",
                "\(row.handler)", "\(Figures.count(row.attempt))", Self.outcome(row.outcome),
                row.duration.map { "\(Figures.length($0))" } ?? "–", "\(status)\(error)",
                "<span class=\"mono\">\(row.worker)</span>",
            ]
        }
        return Part.card("Attempts", count: "\(rows.count)", Part.table("Attempts", columns, rows))
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
