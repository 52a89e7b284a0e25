package import Postgres
package import UpstreamKit
package import Vocabulary

/// A message with everything that the tables hold about it.
package struct MessageDetail: Sendable {
    package var messageKey: MessageKey
    /// The message itself; nil if retention has deleted the body.
    package var stored: StoredMessage?
    package var ledger: LedgerRow?
    package var deliveries: [DeliveryRow]
    package var deadLetters: [DeliveryRow]
    /// Attempts of handlers, oldest first, as far as kept (`retention.attempts`).
    package var attempts: [AttemptRow]
    package var conflicts: [ConflictRow]
    /// Whether more conflicts are stored than ``MessageLookup`` reads at once.
    package var hasMoreConflicts = false
    var conflictBytes: Int { Int(conflicts.last?.bytesThrough ?? 0) }
    /// The key of the message it conflicts with, if it was found by a conflict's release key.
    package var conflictsWith: MessageKey?

    package struct LedgerRow: Sendable {
        package var fingerprint: Digest128?
        /// When the accepted copy was received.
        package var receivedAt: Timestamp
    }

    package struct DeliveryRow: Sendable {
        package var handler: String
        /// Failed attempts that count.
        package var attempts: Int
        package var nextAttemptAt: Timestamp
        /// The worker that holds the lease, or made the last attempt.
        package var leaseOwner: String?
        package var leaseUntil: Timestamp?
        package var lastError: String?
        package var replayID: Digest128?
        package var errorGroup: String?
        package var diedAt: Timestamp?
    }
}

/// An attempt of a handler at a message, as `upstream.attempts` shows it.
package struct AttemptRow: Sendable, Equatable {
    package var handler: String
    /// Its number: 1 plus the counted attempts before it.
    package var attempt: Int
    /// When it began, by the database's clock.
    package var startedAt: Timestamp
    /// How long it took; nil if a delivery became a dead letter without an attempt.
    package var duration: Duration?
    /// `done`, `retry`, `rejected`, `exhausted` or `released`.
    package var outcome: String
    /// The HTTP status of a webhook's unsuccessful answer.
    package var status: Int?
    package var errorGroup: String?
    /// The process that made it: host and process id.
    package var worker: String
}

/// Finds messages by what people have at hand: a key from a log, or an id from an app.
package struct MessageLookup: Sendable {
    /// What was found, and whether there is more than is read at once.
    package typealias Found = (details: [MessageDetail], isCut: Bool)

    /// The most messages for one id, and the most conflicts of one message.
    static let hitLimit = 100
    /// The most messages for the prefix of a key.
    static let prefixLimit = 10
    /// A list ends with the row that takes it past this many bytes, uncompressed.
    ///
    /// Applies to the messages, and to the conflicts of all of them together.
    static let byteLimit = 2 << 20

    private let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Whether a reference means any message, by its key, its id or the beginning of its key; reads none.
    package func isKnown(_ reference: String) async throws(PostgresError) -> Bool {
        let (key, range) = (MessageKey(reference), Digest128.range(ofPrefix: reference))
        return try await connection.result(of: RecordStatements.isKnown(reference, key, range)).value()
    }

    /// Finds the messages that a reference may mean, with everything about them.
    ///
    /// A UUID is tried as a `message_key` first, then as a `message_id`: apps use UUIDs as ids. What is neither may be
    /// the first 6 or more digits of a key.
    ///
    /// - Returns: One message for a key; for an id one per sender (or device) that used it.
    package func find(_ reference: String) async throws(PostgresError) -> Found {
        if let key = MessageKey(reference), let detail = try await detail(key) { return ([detail], false) }
        var filter = MessageFilter()
        filter.messageID = reference
        var pager = MessagePager(filter, .newestFirst, limit: Self.hitLimit)
        pager.byteLimit = Self.byteLimit
        let stored = try await pager.next(connection)
        let kept = try await page(RecordStatements.kept(where: "m.message_id = \(reference)"))
        var found: [MessageDetail] = []
        for page in [stored, kept] {
            for row in 0..<page.count {
                guard let key = page[row]?.cursor.messageKey, !found.contains(where: { $0.messageKey == key }) else {
                    continue
                }
                let read = found.reduce(0) { $0 + $1.conflictBytes }
                found.append(try await detail(key, page, row, conflictBytes: Self.byteLimit - read))
            }
        }
        guard found.isEmpty, let range = Digest128.range(ofPrefix: reference) else {
            return (found, stored.isFull || kept.isFull)
        }
        let keys: [MessageKey] = try await connection.result(of: RecordStatements.keys(in: range)).rows { $0 }
        for key in keys {
            if let detail = try await detail(key) { found.append(detail) }
        }
        return (found, keys.count == Self.prefixLimit)
    }

    /// Finds a message by its key, or by the release key of a conflict; nil if there is none.
    ///
    /// Its conflicts end with the row that takes them past `conflictBytes`; 0 only tells whether there are any.
    package func detail(
        _ key: MessageKey,
        conflictBytes: Int = 2 << 20
    ) async throws(PostgresError) -> MessageDetail? {
        var pager = MessagePager(MessageFilter(messageKey: key), .newestFirst, limit: 1)
        var page = try await pager.next(connection)
        if page.count == 0 {
            page = try await self.page(RecordStatements.kept(where: "m.message_key = \(key.digest)"))
        }
        let detail = try await detail(key, page, page.count > 0 ? 0 : nil, conflictBytes: conflictBytes)
        return detail.stored == nil && detail.ledger == nil ? try await released(key) : detail
    }

    private func page(_ sql: SQL) async throws(PostgresError) -> MessagePage {
        let result = try await connection.result(of: sql)
        return try MessagePage(result, limit: Self.hitLimit, byteLimit: Self.byteLimit)
    }

    /// Finds a released conflict by its release key, under which handlers and dead letters know it.
    private func released(_ key: MessageKey) async throws(PostgresError) -> MessageDetail? {
        let result = try await connection.result(of: RecordStatements.released(key))
        guard result.count > 0 else { return nil }
        var detail = try await detail(key, try MessagePage(result), 0)
        detail.conflictsWith = try result.read(0) { row throws(PostgresError) in try row.value("conflicts_with") }
        return detail
    }

    private func detail(
        _ key: MessageKey,
        _ page: MessagePage,
        _ row: Int?,
        conflictBytes: Int = 2 << 20
    ) async throws(PostgresError) -> MessageDetail {
        var query = ConflictQuery(filter: MessageFilter(messageKey: key), limit: Self.hitLimit)
        // With no bytes left, one conflict still tells that there are any.
        query.byteLimit = max(1, conflictBytes)
        let conflicts = try await query.page(connection)
        func read(_ sql: SQL) async throws(PostgresError) -> PostgresResult { try await connection.result(of: sql) }
        return MessageDetail(
            messageKey: key,
            stored: try row.map { row throws(PostgresError) in try page.message(row) },
            ledger: try await read(RecordStatements.ledger(key)).firstRow(MessageDetail.LedgerRow.init),
            deliveries: try await read(RecordStatements.deliveries(key)).rows(MessageDetail.DeliveryRow.init),
            deadLetters: try await read(RecordStatements.deadLetters(key)).rows(MessageDetail.DeliveryRow.init),
            attempts: try await read(RecordStatements.attempts(of: key.digest)).rows(AttemptRow.init),
            conflicts: conflicts.rows,
            hasMoreConflicts: conflicts.isFull
        )
    }

    /// How many deliveries of each of some messages wait, and how many are dead letters; without those that have none.
    package func pending(
        _ keys: [MessageKey]
    ) async throws(PostgresError) -> [MessageKey: (waiting: Int, dead: Int)] {
        let rows = try await connection.result(of: RecordStatements.pending(keys.map(\.digest))).rows {
            (key: MessageKey, waiting: Int, dead: Int) in (key, (waiting: waiting, dead: dead))
        }
        return Dictionary(rows) { first, _ in first }
    }

    /// The registration tokens of some messages, for masking in what handlers said; never shown themselves.
    ///
    /// One statement looks up every message by key; deleted messages have none.
    package func tokens(
        of places: [(key: MessageKey, receivedAt: Timestamp)]
    ) async throws(PostgresError) -> [MessageKey: [String]] {
        guard !places.isEmpty else { return [:] }
        let rows = try await connection.result(of: RecordStatements.tokens(places)).rows {
            (key: MessageKey, token: String?, receipt: String?) in (key, [token, receipt].compactMap(\.self))
        }
        return Dictionary(rows, uniquingKeysWith: +)
    }
}
