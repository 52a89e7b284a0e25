import Postgres
import Vocabulary

/// The statements of the receive path.
///
/// None can fail in a way that makes PostgreSQL log what a row holds: the functions catch what says something about a row. Each
/// fails where less was stored than there was to store.
enum StoreStatements: StatementCatalog {
    /// What a statement that stored nothing for its rows' times counts as.
    static let misdated = "UW004"

    /// New ledger rows, their bodies and their deliveries.
    ///
    /// After the rows come a lease offer (seven), the senders with what their keys are derived from (two), and three switches. The text
    /// is `upstream.store_batch` in `migrations/`.
    static let insert = PostgresStatement(calling: "store_batch", parameters: 29)

    /// One new message that no handler subscribes to; false for all that ``insert`` has to do.
    ///
    /// The text is `upstream.store_one` in `migrations/`.
    static let insertOne = PostgresStatement(calling: "store_one", parameters: 14)

    /// The ledger's rows for some keys, from a transaction that waits for the standbys too: acks rely on it.
    ///
    /// The text is `upstream.known_messages` in `migrations/`.
    static let ledger = PostgresStatement(
        "SELECT message_key, fingerprint, received_at FROM upstream.known_messages($1)"
    )

    /// Conflicts; the text is `upstream.store_conflicts` in `migrations/`.
    static let conflicts = PostgresStatement(calling: "store_conflicts", parameters: 13)

    /// Quarantined stanzas, counted once for each copy; the text is `upstream.store_quarantine` in `migrations/`.
    static let quarantine = PostgresStatement(calling: "store_quarantine", parameters: 7)

    /// One load at a time.
    static let lockLoads: SQL = "SELECT pg_advisory_xact_lock(hashtextextended('upstream.load', 0))"

    /// What the ledger knows of some keys, for whoever relies on nothing of it.
    static func known(_ keys: [Digest128]) -> SQL {
        "SELECT message_key, fingerprint, received_at FROM upstream.message_ids WHERE message_key = ANY (\(keys))"
    }

    /// Deletes every handler's deliveries of some messages.
    static func deleteDeliveries(of keys: [Digest128]) -> SQL {
        "DELETE FROM upstream.deliveries WHERE message_key = ANY (\(keys))"
    }

    static var samples: [StatementSample] {
        let times: [PostgresType] = [.timestamptz, .timestamptz]
        let rows: [PostgresType] = [.text, .text, .uuid, .text, .text, .text, .text, .text, .text]
        // With the batch's one sender and its address before it.
        let offer: [PostgresType] = [.text, .text, .text, .int8, .int8, .text.array, .text.array, .text.array, .int8]
        let stanzas: [PostgresType] = [.text, .text, .text, .text, .bytea, .timestamptz, .bytea]
        return [
            StatementSample(
                "insert",
                insert,
                arrays: [.uuid, .uuid, .timestamptz, .uuid, .timestamptz, .text] + rows,
                offer + [.text.array, .text.array, .bool, .bool, .bool] + times
            ),
            StatementSample(
                "insertBefore",
                insertBefore,
                arrays: [.uuid, .uuid, .timestamptz, .uuid, .timestamptz, .text] + rows,
                offer + times
            ),
            StatementSample("insertOne", insertOne, [.uuid, .uuid, .timestamptz, .text, .text] + rows + times),
            StatementSample("ledger", ledger, arrays: [.uuid]),
            StatementSample("conflicts", conflicts, arrays: [.uuid, .uuid, .timestamptz, .text] + rows, times),
            StatementSample("quarantine", quarantine, arrays: stanzas, times),
            StatementSample("quarantineBefore", quarantineBefore, arrays: stanzas),
            StatementSample("lockLoads", lockLoads),
            StatementSample("known", known([])),
            StatementSample("deleteDeliveries", deleteDeliveries(of: [])),
        ]
    }
}

extension PostgresStatement {
    /// Calls a function that returns one row, with the first so many parameters: no row where the times, which are the two
    /// after those, are refused.
    ///
    /// The first parameter goes by way of the condition's row, without which the function can't be called.
    init(calling function: String, parameters count: Int) {
        let others = (2...count).map { "$\($0)" }.joined(separator: ", ")
        self.init(
            """
            SELECT stored.* FROM (SELECT $1 AS first WHERE \(Self.areDated(count + 1)) OFFSET 0) AS dated
            CROSS JOIN LATERAL upstream.\(function)(dated.first, \(others)) AS stored
            """
        )
    }

    /// A condition: the times between two parameters, of this number and the next, are within ``StampLimits``; nulls are.
    ///
    /// Here, since only the database knows its time when it stores: its clock, or ours, may have been set since the last reading.
    private static func areDated(_ first: Int) -> String {
        """
        ($\(first)::timestamptz >= now() - interval '\(StampLimits.oldest.components.seconds) s'
            AND $\(first + 1)::timestamptz <= now() + interval '\(StampLimits.ahead.components.seconds) s') IS NOT FALSE
        """
    }
}
