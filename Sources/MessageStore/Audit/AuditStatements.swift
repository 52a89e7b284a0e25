import Postgres

enum AuditStatements {
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
        let condition: SQL = .all([
            filter.who.map { "who = \($0)" },
            filter.action.map { "(action = \($0) OR starts_with(action, \($0) || '.'))" },
            filter.since.map { "at >= \($0)" },
            filter.until.map { "at < \($0)" },
            filter.before.map { "id < \($0)" },
        ])
        return """
            SELECT id, at, who, role, via, action, subject, count, reason
            FROM upstream.audit WHERE \(condition) ORDER BY id DESC LIMIT \(limit)
            """
    }
}
