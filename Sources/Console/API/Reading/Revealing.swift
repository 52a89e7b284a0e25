import MessageStore
import Postgres

/// The record of revealed registration tokens.
enum Revealing {
    /// The most characters of an audit entry's subject (``AuditLog/record(_:_:_:count:by:isEnd:)``).
    private static let subjectLimit = 1_000

    /// Records that somebody sees tokens; called before they do.
    ///
    /// - Parameters:
    ///   - count: The number of messages.
    ///   - subject: What was looked at.
    ///   - keys: The messages' keys, if the subject doesn't name them.
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

    /// The subject and the keys, split into entries.
    static func subjects(_ subject: String, _ keys: [String]) -> [String] {
        var rest =
            keys.isEmpty
            ? subject[...].unicodeScalars : (subject + ": " + keys.joined(separator: " "))[...].unicodeScalars
        var subjects: [String] = []
        while !rest.isEmpty || subjects.isEmpty {
            let head: String = subjects.isEmpty ? "" : "messages, continued: "
            var part = rest.prefix(subjectLimit - head.unicodeScalars.count)
            // Keys are not cut in two.
            if part.endIndex < rest.endIndex, let space = part.lastIndex(of: " "), space > part.startIndex {
                part = part[...space]
            }
            subjects.append(head + String(part))
            rest = rest[part.endIndex...]
        }
        return subjects
    }
}
