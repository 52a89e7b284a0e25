package import Postgres
package import UpstreamKit
package import Vocabulary

/// One message with everything the tables know about it.
package struct MessageDetail: Sendable {
    /// The key.
    package var messageKey: MessageKey
    /// The row of `messages`, or of `dead_messages`, if it is still there.
    package var page: MessagePage
    /// The row's number in ``page``; nil where the body is past its retention.
    package var row: Int?
    /// The ledger's row.
    package var ledger: LedgerRow?
    /// What is still to be handled.
    package var deliveries: [DeliveryRow]
    /// What was given up.
    package var deadLetters: [DeliveryRow]
    /// Copies with other content.
    package var conflicts: [ConflictRow]
    /// Where the key is the release key of a conflict: the key of the message that it conflicts with.
    package var conflictsWith: MessageKey?

    /// A row of `message_ids`.
    package struct LedgerRow: Sendable {
        /// The fingerprint of the accepted copy.
        package var fingerprint: Digest128
        /// Microseconds since 1970-01-01 UTC.
        package var receivedAt: Int64
    }

    /// A row of `deliveries` or `dead_letters`.
    package struct DeliveryRow: Sendable {
        /// The handler.
        package var handler: String
        /// Attempts that failed and count.
        package var attempts: Int
        /// When it may be claimed next.
        package var nextAttemptAt: Int64
        /// The worker that holds it, or made the last attempt.
        package var leaseOwner: String?
        /// When its lease ends.
        package var leaseUntil: Int64?
        /// What the latest attempt failed with.
        package var lastError: String?
        /// The replay that asked for it.
        package var replayID: String?
        /// The failure's group, of a dead letter.
        package var errorGroup: String?
        /// When it was given up, of a dead letter.
        package var diedAt: Int64?
    }
}

/// Finds messages by what people have in hand: a key from a log, or an id from an app.
package struct MessageLookup: Sendable {
    private let connection: PostgresConnection

    /// A look-up in the database that the connection leads to.
    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Everything about the messages that a reference may mean.
    ///
    /// A UUID is taken for a `message_key` first, and where no message has it, for a `message_id`: apps like to use UUIDs.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: One message for a key; for an id as many as senders (or devices) have used it.
    package func find(_ reference: String) async throws(PostgresError) -> [MessageDetail] {
        if let key = MessageKey(reference), let detail = try await detail(key) { return [detail] }
        var filter = MessageFilter()
        filter.messageID = reference
        var pager = MessagePager(filter, .newestFirst, limit: 100)
        let page = try await pager.next(connection)
        var found: [MessageDetail] = []
        for row in 0..<page.count {
            guard let key = page.cursor(row)?.messageKey else { continue }
            found.append(try await detail(key, page, row))
        }
        var values = SQLValues()
        let id = values.bind(reference)
        let kept = try await kept("m.message_id = \(id)", values)
        for row in 0..<kept.count {
            guard let key = kept.cursor(row)?.messageKey else { continue }
            if found.contains(where: { $0.messageKey == key }) { continue }
            found.append(try await detail(key, kept, row))
        }
        return found
    }

    /// What is kept for its dead letters, as its day has been dropped.
    private func kept(_ condition: String, _ values: SQLValues) async throws(PostgresError) -> MessagePage {
        let sql = """
            SELECT \(MessagePage.columns()) FROM upstream.dead_messages AS m
            WHERE \(condition) ORDER BY m.received_at DESC, m.message_key DESC LIMIT 100
            """
        let result = try await connection.run { connection throws(PostgresError) in try connection.query(sql, values) }
        return MessagePage(result: result, isFull: false)
    }

    /// Everything about the message of a key, or of the release key of a conflict; nil where there is none.
    ///
    /// The ledger's `received_at` leads to the one partition.
    ///
    /// - Throws: ``PostgresError``
    package func detail(_ key: MessageKey) async throws(PostgresError) -> MessageDetail? {
        var filter = MessageFilter()
        filter.messageKey = key
        var pager = MessagePager(filter, .newestFirst, limit: 1)
        var page = try await pager.next(connection)
        if page.count == 0 {
            var values = SQLValues()
            let place = values.bind(key.digest)
            page = try await kept("m.message_key = \(place)", values)
        }
        let detail = try await detail(key, page, page.count > 0 ? 0 : nil)
        return detail.row == nil && detail.ledger == nil ? try await released(key) : detail
    }

    /// What handlers and their dead letters know by a release key.
    private func released(_ key: MessageKey) async throws(PostgresError) -> MessageDetail? {
        var values = SQLValues()
        let place = values.bind(key.digest)
        let (sql, parameters) = (
            """
            SELECT \(MessagePage.columns()), c.message_key
            FROM upstream.conflicts AS c, upstream.message_of(\(place), 'epoch') AS m
            WHERE upstream.release_key(c.message_key, c.fingerprint) = \(place) AND c.released_at IS NOT NULL
            """, values
        )
        let result = try await connection.run { connection throws(PostgresError) in
            try connection.query(sql, parameters)
        }
        guard let other = result.count > 0 ? result.digest(0, MessagePage.Column.allCases.count) : nil else {
            return nil
        }
        var detail = try await detail(key, MessagePage(result: result, isFull: false), 0)
        detail.conflictsWith = MessageKey(other)
        return detail
    }

    private func detail(
        _ key: MessageKey,
        _ page: MessagePage,
        _ row: Int?
    ) async throws(PostgresError) -> MessageDetail {
        try await connection.run { connection throws(PostgresError) in
            MessageDetail(
                messageKey: key,
                page: page,
                row: row,
                ledger: try connection.ledgerRow(key),
                deliveries: try connection.deliveries(key, from: "deliveries", "NULL::text, NULL::timestamptz"),
                deadLetters: try connection.deliveries(key, from: "dead_letters", "error_group, died_at"),
                conflicts: try connection.conflicts(key)
            )
        }
    }
}

extension PostgresConnection {
    fileprivate func ledgerRow(_ key: MessageKey) throws(PostgresError) -> MessageDetail.LedgerRow? {
        var values = SQLValues()
        let place = values.bind(key.digest)
        let result = try query(
            "SELECT fingerprint, received_at FROM upstream.message_ids WHERE message_key = \(place)",
            values
        )
        guard result.count > 0, let fingerprint = result.digest(0, 0), let time = result.timestamp(0, 1) else {
            return nil
        }
        return MessageDetail.LedgerRow(fingerprint: fingerprint, receivedAt: time)
    }

    fileprivate func deliveries(
        _ key: MessageKey,
        from table: StaticString,
        _ more: StaticString
    ) throws(PostgresError) -> [MessageDetail.DeliveryRow] {
        var values = SQLValues()
        let place = values.bind(key.digest)
        let result = try query(
            """
            SELECT
                handler, attempts, next_attempt_at, lease_owner, lease_until, last_error, replay_id::text, \(more)
            FROM upstream.\(table) WHERE message_key = \(place) ORDER BY handler
            """,
            values
        )
        return (0..<result.count).map { row in
            MessageDetail.DeliveryRow(
                handler: result.text(row, 0) ?? "",
                attempts: Int(result.integer(row, 1) ?? 0),
                nextAttemptAt: result.timestamp(row, 2) ?? 0,
                leaseOwner: result.text(row, 3),
                leaseUntil: result.timestamp(row, 4),
                lastError: result.text(row, 5),
                replayID: result.text(row, 6),
                errorGroup: result.text(row, 7),
                diedAt: result.timestamp(row, 8)
            )
        }
    }

    fileprivate func conflicts(_ key: MessageKey) throws(PostgresError) -> [ConflictRow] {
        var filter = MessageFilter()
        filter.messageKey = key
        let (sql, values) = ConflictQuery(filter: filter, limit: 100).statement
        return ConflictRow.rows(of: try query(sql, values))
    }
}
