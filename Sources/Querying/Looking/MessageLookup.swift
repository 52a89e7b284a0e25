package import Postgres
package import UpstreamKit
package import Vocabulary

/// One message with everything that the tables hold about it.
package struct MessageDetail: Sendable {
    /// The key.
    package var messageKey: MessageKey
    /// The page that holds its row of `messages` or `dead_messages`.
    let page: MessagePage
    /// The number of the row in ``page``; nil if retention has deleted the body.
    let row: Int?
    /// The message itself; nil if retention has deleted the body.
    package var stored: StoredMessage?
    /// Its row of the ledger.
    package var ledger: LedgerRow?
    /// Its pending deliveries.
    package var deliveries: [DeliveryRow]
    /// Its dead letters.
    package var deadLetters: [DeliveryRow]
    /// What handlers tried, oldest first, as far as it is kept (`retention.attempts`).
    package var attempts: [AttemptRow]
    /// Copies with other content.
    package var conflicts: [ConflictRow]
    /// The key of the message it conflicts with, if the key is the release key of a conflict.
    package var conflictsWith: MessageKey?

    /// A row of `message_ids`.
    package struct LedgerRow: Sendable {
        /// The fingerprint of the accepted copy.
        package var fingerprint: Digest128
        /// When the accepted copy was received.
        package var receivedAt: Timestamp
    }

    /// A row of `deliveries` or `dead_letters`.
    package struct DeliveryRow: Sendable {
        /// The handler.
        package var handler: String
        /// Failed attempts that count.
        package var attempts: Int
        /// When the next attempt is due.
        package var nextAttemptAt: Timestamp
        /// The worker that holds the lease, or made the last attempt.
        package var leaseOwner: String?
        /// When its lease ends.
        package var leaseUntil: Timestamp?
        /// The error of the latest attempt.
        package var lastError: String?
        /// The replay that queued it.
        package var replayID: Digest128?
        /// The error group of a dead letter.
        package var errorGroup: String?
        /// When a dead letter was given up.
        package var diedAt: Timestamp?
    }
}

/// Finds messages by what people have at hand: a key from a log, or an id from an app.
package struct MessageLookup: Sendable {
    private let connection: PostgresConnection

    /// A lookup in the database that the connection leads to.
    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Everything about the messages that a reference may mean.
    ///
    /// A UUID is taken for a `message_key` first, then for a `message_id`: apps use UUIDs as ids.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: One message for a key; for an id one per sender (or device) that used it.
    package func find(_ reference: String) async throws(PostgresError) -> [MessageDetail] {
        if let key = MessageKey(reference), let detail = try await detail(key) { return [detail] }
        var filter = MessageFilter()
        filter.messageID = reference
        var pager = MessagePager(filter, .newestFirst, limit: 100)
        let stored = try await pager.next(connection)
        let kept = try await page(MessageStatements.kept(where: "m.message_id = \(reference)"))
        var found: [MessageDetail] = []
        for page in [stored, kept] {
            for row in 0..<page.count {
                guard let key = page.cursor(row)?.messageKey, !found.contains(where: { $0.messageKey == key }) else {
                    continue
                }
                found.append(try await detail(key, page, row))
            }
        }
        return found
    }

    /// Everything about the message of a key, or of the release key of a conflict; nil if there is none.
    ///
    /// - Throws: ``PostgresError``
    package func detail(_ key: MessageKey) async throws(PostgresError) -> MessageDetail? {
        var filter = MessageFilter()
        filter.messageKey = key
        var pager = MessagePager(filter, .newestFirst, limit: 1)
        var page = try await pager.next(connection)
        if page.count == 0 {
            page = try await self.page(MessageStatements.kept(where: "m.message_key = \(key.digest)"))
        }
        let detail = try await detail(key, page, page.count > 0 ? 0 : nil)
        return detail.stored == nil && detail.ledger == nil ? try await released(key) : detail
    }

    private func page(_ sql: SQL) async throws(PostgresError) -> MessagePage {
        try await connection.run { connection throws(PostgresError) in try MessagePage(try connection.run(sql)) }
    }

    /// The released conflict with this release key, under which handlers and dead letters know it.
    private func released(_ key: MessageKey) async throws(PostgresError) -> MessageDetail? {
        let found = try await connection.run { connection throws(PostgresError) in
            let result = try connection.run(MessageStatements.released(key))
            let other = try result.first { row throws(PostgresError) in
                MessageKey(try row.value("conflicts_with", as: Digest128.self))
            }
            return (page: try MessagePage(result), conflictsWith: other)
        }
        guard let conflictsWith = found.conflictsWith else { return nil }
        var detail = try await detail(key, found.page, 0)
        detail.conflictsWith = conflictsWith
        return detail
    }

    private func detail(
        _ key: MessageKey,
        _ page: MessagePage,
        _ row: Int?
    ) async throws(PostgresError) -> MessageDetail {
        try await connection.run { connection throws(PostgresError) in
            var filter = MessageFilter()
            filter.messageKey = key
            return MessageDetail(
                messageKey: key,
                page: page,
                row: row,
                stored: try row.map { row throws(PostgresError) in try page.message(row) },
                ledger: try connection.run(MessageStatements.ledger(key)).first { row throws(PostgresError) in
                    MessageDetail.LedgerRow(fingerprint: try row.next(), receivedAt: try row.next())
                },
                deliveries: try connection.run(MessageStatements.deliveries(key)).map(MessageDetail.DeliveryRow.init),
                deadLetters: try connection.run(MessageStatements.deadLetters(key)).map(MessageDetail.DeliveryRow.init),
                attempts: try AttemptHistory.of(key.digest, connection),
                conflicts: try ConflictRow.rows(
                    of: try connection.run(ConflictQuery(filter: filter, limit: 100).statement)
                )
            )
        }
    }
}

extension MessageDetail.DeliveryRow {
    /// Reads a row of ``MessageStatements/deliveries(_:)``.
    fileprivate init(_ row: inout PostgresRow) throws(PostgresError) {
        handler = try row.next()
        attempts = try row.next()
        nextAttemptAt = try row.next()
        leaseOwner = try row.next()
        leaseUntil = try row.next()
        lastError = try row.next()
        replayID = try row.next()
        errorGroup = try row.next()
        diedAt = try row.next()
    }
}
