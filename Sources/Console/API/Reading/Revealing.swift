import MessageStore
import Postgres
import Querying

extension EndpointRequest {
    /// What who asks sees: registration tokens if `reveal` asks for them and they have the right.
    var sight: Sight {
        get throws(Problem) { Sight(tokens: try self[.reveal] != nil, payloads: services.sight.payloads) }
    }

    /// Records that somebody sees tokens, before they do; `keys` are those of messages that the subject doesn't name.
    ///
    /// - Throws: `PostgresError`: nothing may be shown then.
    func recordReveal(of count: Int, _ subject: String, _ keys: [String] = []) async throws {
        let author = AuditAuthor(try principal.name, via: .console)
        let subjects = Self.subjects(subject, keys)
        try await services.writer.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                for (number, text) in subjects.enumerated() {
                    try AuditLog.record(connection, .revealTokens, text, count: number == 0 ? count : nil, by: author)
                }
            }
        }
    }

    /// The most characters of an audit entry's subject (``AuditLog/record(_:_:_:count:by:isEnd:)``).
    private static let subjectLimit = 1_000

    /// The subject and the keys, split into entries.
    private static func subjects(_ subject: String, _ keys: [String]) -> [String] {
        let text = keys.isEmpty ? subject : subject + ": " + keys.joined(separator: " ")
        var (rest, subjects): (Substring.UnicodeScalarView, [String]) = (text[...].unicodeScalars, [])
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
