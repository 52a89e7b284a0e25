import MessageStore
import Postgres
import Querying

/// Registration tokens that are shown.
enum Revealing {
    /// The most characters of an entry's subject that are kept (``AuditLog/record(_:_:_:count:by:isEnd:)``).
    private static let subjectLimit = 1_000

    /// Records that somebody is shown tokens; before they are, so that none is shown without a record.
    ///
    /// - Parameters:
    ///   - count: Of how many messages.
    ///   - subject: What was looked at.
    ///   - keys: Whose tokens are shown, where the subject does not say it.
    ///   - services: The sessions.
    ///   - principal: Who asked.
    /// - Throws: `PostgresError`: nothing may be shown then.
    static func record(
        _ count: Int,
        _ subject: String,
        _ keys: [String],
        _ services: ConsoleServices,
        _ principal: Principal
    ) async throws {
        let author = AuditAuthor(principal.name, via: .console)
        let subjects = subjects(subject, keys)
        try await services.writer.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                for (number, text) in subjects.enumerated() {
                    try AuditLog.record(connection, .revealTokens, text, count: number == 0 ? count : nil, by: author)
                }
            }
        }
    }

    /// The subject and the keys, in as many entries as they take; only the first one counts.
    static func subjects(_ subject: String, _ keys: [String]) -> [String] {
        var rest =
            keys.isEmpty
            ? subject[...].unicodeScalars : (subject + ": " + keys.joined(separator: " "))[...].unicodeScalars
        var subjects: [String] = []
        while !rest.isEmpty || subjects.isEmpty {
            let head: String = subjects.isEmpty ? "" : "messages, continued: "
            var part = rest.prefix(subjectLimit - head.unicodeScalars.count)
            // A key is not cut in two.
            if part.endIndex < rest.endIndex, let space = part.lastIndex(of: " "), space > part.startIndex {
                part = part[...space]
            }
            subjects.append(head + String(part))
            rest = rest[part.endIndex...]
        }
        return subjects
    }
}
