import Postgres
import Vocabulary

enum AuditStatements: StatementCatalog {
    /// Adds an entry; returns its id.
    static func record(_ action: String, _ subject: String, count: Int?, by author: AuditAuthor) -> SQL {
        """
        SELECT upstream.record_audit(
            \(author.name), \(author.way.rawValue), \(action), \(subject), \(count), \(author.reason)
        )
        """
    }

    /// Whether the audit trail exists: the oldest migrations predate it.
    static let exists: SQL = "SELECT to_regclass('upstream.audit') IS NOT NULL"

    static func page(_ filter: AuditFilter, limit: Int) -> SQL {
        var conditions: [SQL] = []
        if let who = filter.who { conditions.append("who = \(who)") }
        if let action = filter.action {
            conditions.append("(action = \(action) OR starts_with(action, \(action) || '.'))")
        }
        if let since = filter.since { conditions.append("at >= \(since)") }
        if let until = filter.until { conditions.append("at < \(until)") }
        if let before = filter.before { conditions.append("id < \(before)") }
        let condition: SQL = conditions.isEmpty ? "true" : .joined(conditions, separator: " AND ")
        return """
            SELECT id, at, who, role, via, action, subject, count, reason
            FROM upstream.audit WHERE \(condition) ORDER BY id DESC LIMIT \(limit)
            """
    }

    static var samples: [StatementSample] {
        var narrow = AuditFilter()
        (narrow.who, narrow.action, narrow.before) = ("anna", "dead.retry", 1)
        (narrow.since, narrow.until) = (Timestamp(microseconds: 0), Timestamp(microseconds: 1))
        let author = AuditAuthor("anna", via: .command)
        return [
            StatementSample("record", record("dead.retry", "x", count: 1, by: author)),
            StatementSample("exists", exists),
            StatementSample("page", page(AuditFilter(), limit: 1)),
            StatementSample("page, narrowed", page(narrow, limit: 1)),
        ]
    }
}
