package import Postgres
package import UpstreamKit
package import Vocabulary

/// A row of `upstream.conflicts`.
package struct ConflictRow: Sendable {
    /// The copy, as the first of its content came; its key is that of the message it conflicts with.
    package var copy: StoredMessage
    /// The copy's fingerprint.
    package var fingerprint: Digest128
    /// How many copies of this content came.
    package var timesSeen: Int64
    /// When the latest came.
    package var lastSeenAt: Int64
    /// When it was handed to the handlers; nil where it was not.
    package var releasedAt: Int64?
    /// The database role that handed it on.
    package var releasedBy: String?
    /// The key under which handlers see it.
    package var releaseKey: MessageKey

    fileprivate let page: MessagePage
    fileprivate let row: Int

    /// Its place in the order of conflicts.
    package var cursor: ConflictCursor { ConflictCursor(message: copy.cursor, fingerprint: fingerprint) }

    static func rows(of result: PostgresResult) -> [ConflictRow] {
        let page = MessagePage(result: result, isFull: false)
        let first = MessagePage.Column.allCases.count
        return (0..<result.count).compactMap { row in
            guard let copy = page.message(row), let fingerprint = result.digest(row, first),
                let releaseKey = result.digest(row, first + 5)
            else { return nil }
            return ConflictRow(
                copy: copy,
                fingerprint: fingerprint,
                timesSeen: result.integer(row, first + 1) ?? 0,
                lastSeenAt: result.timestamp(row, first + 2) ?? 0,
                releasedAt: result.timestamp(row, first + 3),
                releasedBy: result.text(row, first + 4),
                releaseKey: MessageKey(releaseKey),
                page: page,
                row: row
            )
        }
    }

    /// The copy's own JSON object with `times_seen`, `last_seen_at` and what is known of its release added to it.
    ///
    /// - Parameters:
    ///   - tokens: Whether the registration token is written.
    ///   - isForTerminal: Whether characters that a terminal may act on are escaped, too.
    /// - Returns: One line without its end.
    package func json(tokens: Bool, isForTerminal: Bool) -> [UInt8] {
        var lines = MessageLines(.ndjson, tokens: tokens, isForTerminal: isForTerminal)
        lines.appendObject(page, row)
        var object = lines.take()
        object.removeLast()
        object += #","times_seen":\#(timesSeen),"last_seen_at":"\#(TimeText.rfc3339(lastSeenAt))""#.utf8
        object += #","release_key":"\#(releaseKey)""#.utf8
        if let releasedAt { object += #","released_at":"\#(TimeText.rfc3339(releasedAt))""#.utf8 }
        if var role = releasedBy {
            object += #","released_by":""#.utf8
            role.withUTF8 { JSONEscape.stringForTerminal.append(UnsafeRawBufferPointer($0), to: &object) }
            object.append(UInt8(ascii: "\""))
        }
        object.append(UInt8(ascii: "}"))
        return object
    }
}

/// A place in the order of conflicts; its text form is that of ``MessageCursor``, a slash, and the fingerprint.
package struct ConflictCursor: Sendable, Equatable, CustomStringConvertible {
    /// The first copy's time and key.
    package var message: MessageCursor
    /// Tells contents of one message apart.
    package var fingerprint: Digest128

    init(message: MessageCursor, fingerprint: Digest128) {
        (self.message, self.fingerprint) = (message, fingerprint)
    }

    /// Reads the text form; nil for another text.
    package init?(_ text: String) {
        guard let slash = text.lastIndex(of: "/"), let message = MessageCursor(String(text[..<slash])),
            let print = Digest128(uuid: text[text.index(after: slash)...].utf8)
        else { return nil }
        self.init(message: message, fingerprint: print)
    }

    package var description: String { "\(message)/\(fingerprint)" }
}

/// A query for conflicts.
package struct ConflictQuery: Sendable {
    /// Which; times are those of the first copy.
    package var filter: MessageFilter
    /// Only this content.
    package var fingerprint: Digest128?
    /// The place after which it begins, the latest first.
    package var cursor: ConflictCursor?
    /// The largest number of rows.
    package var limit: Int

    package init(filter: MessageFilter, fingerprint: Digest128? = nil, after cursor: ConflictCursor? = nil, limit: Int)
    {
        self.filter = filter
        self.fingerprint = fingerprint
        self.cursor = cursor
        self.limit = limit
    }

    var statement: (sql: String, values: SQLValues) {
        var values = SQLValues()
        var condition = filter.condition(&values, on: .conflicts)
        if let fingerprint { condition += " AND m.fingerprint = \(values.bind(fingerprint))" }
        if let cursor {
            let time = values.bind(time: cursor.message.receivedAt)
            let key = values.bind(cursor.message.messageKey.digest)
            let print = values.bind(cursor.fingerprint)
            condition += " AND (m.received_at, m.message_key, m.fingerprint) < (\(time), \(key), \(print))"
        }
        let sql = """
            SELECT
                \(MessagePage.columns()), m.fingerprint, m.times_seen, m.last_seen_at, m.released_at, m.released_by,
                upstream.release_key(m.message_key, m.fingerprint)
            FROM upstream.conflicts AS m WHERE \(condition)
            ORDER BY m.received_at DESC, m.message_key DESC, m.fingerprint DESC LIMIT \(values.bind(Int64(limit)))
            """
        return (sql, values)
    }

    /// Runs it.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: The latest first.
    package func rows(_ connection: PostgresConnection) async throws(PostgresError) -> [ConflictRow] {
        let (sql, values) = statement
        return try await connection.run { connection throws(PostgresError) in
            ConflictRow.rows(of: try connection.query(sql, values))
        }
    }
}
