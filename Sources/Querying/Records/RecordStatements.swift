import Postgres
import UpstreamKit
import Vocabulary

/// The statements about one message, and about what was no ordinary one.
enum RecordStatements {
    /// Messages of dropped days that are kept for their dead letters; `condition` is on the row `m`.
    static func kept(where condition: SQL) -> SQL {
        MessageStatements.bounded(
            MessagePage.columns,
            from: "upstream.dead_messages",
            where: condition,
            "m.received_at DESC, m.message_key DESC",
            limit: MessageLookup.hitLimit,
            bytes: MessageStatements.verbatimBytes,
            upTo: MessageLookup.byteLimit
        )
    }

    /// Whether there is a message with a key, an id or the beginning of a key.
    static func isKnown(_ id: String, _ key: MessageKey?, _ range: ClosedRange<Digest128>?) -> SQL {
        let byKey: SQL? = key.map {
            """
            OR EXISTS (SELECT FROM upstream.message_ids WHERE message_key = \($0.digest))
            OR EXISTS (SELECT FROM upstream.dead_messages WHERE message_key = \($0.digest))
            OR EXISTS (
                SELECT FROM upstream.conflicts
                WHERE upstream.release_key(message_key, fingerprint) = \($0.digest) AND released_at IS NOT NULL
            )
            """
        }
        let byRange: SQL? = range.map {
            """
            OR EXISTS (
                SELECT FROM upstream.message_ids WHERE message_key BETWEEN \($0.lowerBound) AND \($0.upperBound)
            )
            """
        }
        return """
            SELECT EXISTS (SELECT FROM upstream.messages_with_id(\(id)))
                OR EXISTS (SELECT FROM upstream.dead_messages WHERE message_id = \(id)) \(byKey ?? "") \(byRange ?? "")
            """
    }

    /// The content of a released conflict, by its release key, and the key of the message it conflicts with.
    static func released(_ key: MessageKey) -> SQL {
        """
        SELECT \(MessagePage.columns), c.message_key AS conflicts_with
        FROM upstream.conflicts AS c, upstream.message_of(\(key.digest), 'epoch') AS m
        WHERE upstream.release_key(c.message_key, c.fingerprint) = \(key.digest) AND c.released_at IS NOT NULL
        """
    }

    static func ledger(_ key: MessageKey) -> SQL {
        "SELECT fingerprint, received_at FROM upstream.message_ids WHERE message_key = \(key.digest)"
    }

    /// The first keys of the ledger in a range.
    static func keys(in range: ClosedRange<Digest128>) -> SQL {
        """
        SELECT message_key FROM upstream.message_ids
        WHERE message_key BETWEEN \(range.lowerBound) AND \(range.upperBound)
        ORDER BY message_key LIMIT \(MessageLookup.prefixLimit)
        """
    }

    static func deliveries(_ key: MessageKey) -> SQL {
        """
        SELECT
            handler, attempts, next_attempt_at, lease_owner, lease_until, last_error, replay_id, NULL::text,
            NULL::timestamptz
        FROM upstream.deliveries WHERE message_key = \(key.digest)
        UNION ALL
        SELECT handler, 0, lease_until, lease_owner, lease_until, NULL, replay_id, NULL, NULL
        FROM upstream.delivery_blocks WHERE \(key.digest) = ANY (keys)
        ORDER BY handler
        """
    }

    /// The dead letters of a message, with the columns of ``deliveries(_:)``.
    static func deadLetters(_ key: MessageKey) -> SQL {
        """
        SELECT
            handler, attempts, next_attempt_at, lease_owner, lease_until, last_error, replay_id, error_group, died_at
        FROM upstream.dead_letters WHERE message_key = \(key.digest) ORDER BY handler
        """
    }

    /// How many deliveries of each of some messages wait, and how many are dead letters; no row where there are none.
    static func pending(_ keys: [Digest128]) -> SQL {
        """
        SELECT key, count(*) FILTER (WHERE NOT is_dead), count(*) FILTER (WHERE is_dead)
        FROM (
            SELECT message_key, false FROM upstream.deliveries WHERE message_key = ANY (\(keys))
            UNION ALL
            SELECT entry.key, false FROM upstream.delivery_blocks CROSS JOIN LATERAL unnest(keys) AS entry (key)
            WHERE entry.key = ANY (\(keys))
            UNION ALL
            SELECT message_key, true FROM upstream.dead_letters WHERE message_key = ANY (\(keys))
        ) AS found (key, is_dead) GROUP BY key
        """
    }

    /// A page of conflicts, the newest first.
    static func conflicts(_ query: ConflictQuery) -> SQL {
        var condition = query.filter.condition(on: .conflicts)
        if let fingerprint = query.fingerprint { condition = "\(condition) AND m.fingerprint = \(fingerprint)" }
        if let cursor = query.cursor {
            let (message, fingerprint) = (cursor.message, cursor.fingerprint)
            condition = """
                \(condition) AND (m.received_at, m.message_key, m.fingerprint)
                    < (\(message.receivedAt), \(message.messageKey.digest), \(fingerprint))
                """
        }
        let columns: SQL = """
            \(MessagePage.columns), m.fingerprint, m.times_seen, m.last_seen_at, m.released_at, m.released_by,
            upstream.release_key(m.message_key, m.fingerprint)
            """
        let order: SQL = "m.received_at DESC, m.message_key DESC, m.fingerprint DESC"
        return MessageStatements.bounded(
            columns,
            from: "upstream.conflicts",
            where: condition,
            order,
            limit: query.limit,
            bytes: query.byteLimit == .max ? "0::bigint" : MessageStatements.verbatimBytes,
            upTo: query.byteLimit
        )
    }

    /// A page of quarantined stanzas along the id.
    static func quarantine(_ query: QuarantineQuery) -> SQL {
        let isBackwards = query.order == .newestFirst
        let condition: SQL = .all([
            query.condition,
            query.cursor.map { isBackwards ? "id < \($0)" : "id > \($0)" },
        ])
        let stanza: SQL = query.hasStanzas ? "m.stanza" : "''::bytea"
        return MessageStatements.bounded(
            """
            m.id, m.sender_id, m.message_id, m.reason, m.detail, \(stanza), octet_length(m.stanza), m.times_seen, m.received_at,
            m.last_seen_at, CASE WHEN m.last_seen_at <= m.dismissed_at THEN m.dismissed_at END, false
            """,
            from: "upstream.quarantine",
            where: condition,
            isBackwards ? "m.id DESC" : "m.id ASC",
            limit: query.limit,
            bytes: query.byteLimit == .max ? "0::bigint" : "octet_length(m.stanza)::bigint",
            upTo: query.byteLimit
        )
    }

    /// Counts the stanzas of a query.
    static func quarantined(_ query: QuarantineQuery) -> SQL {
        "SELECT count(*) FROM upstream.quarantine WHERE \(query.condition)"
    }

    static func attempts(of key: Digest128) -> SQL {
        """
        SELECT handler, attempt, started_at, duration, outcome, status, error_group, worker
        FROM upstream.attempts_of(\(key)) ORDER BY started_at, handler, attempt
        """
    }

    /// Each message's token, and the one in a receipt's data.
    static func tokens(_ places: [(key: MessageKey, receivedAt: Timestamp)]) -> SQL {
        """
        SELECT
            place.key, m.registration_token,
            CASE WHEN m.message_type = 'receipt' THEN m.data::jsonb ->> \(TokenMask.member) END
        FROM unnest(\(places.map(\.key.digest)), \(places.map(\.receivedAt))) AS place (key, at)
        CROSS JOIN LATERAL upstream.message_of(place.key, place.at) AS m
        """
    }
}
