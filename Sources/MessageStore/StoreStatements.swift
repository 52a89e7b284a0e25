import Postgres
import Vocabulary

/// The statements of the receive path.
///
/// None makes PostgreSQL log a row's content: the functions catch errors about rows. Each fails if it stored less than
/// it was given.
enum StoreStatements {
    /// The SQLSTATE for rows that were not stored because of their times.
    static let misdated = "UW004"

    /// Inserts new ledger rows, their bodies and their deliveries.
    ///
    /// After the rows come a lease offer (seven), the senders with what their keys are derived from (two), and three
    /// switches. The text is `upstream.store_batch` in `migrations/`.
    static let insert = calling("store_batch", parameters: 29)

    /// Inserts one new message that no handler subscribes to; false if ``insert`` has to do it.
    ///
    /// The text is `upstream.store_one` in `migrations/`.
    static let insertOne = calling("store_one", parameters: 14)

    /// The ledger's rows for some keys, from a transaction that also waits for the standbys, since acks rely on it.
    ///
    /// The text is `upstream.known_messages` in `migrations/`.
    static let ledger = PostgresStatement(
        "SELECT message_key, fingerprint, received_at FROM upstream.known_messages($1)"
    )

    /// Conflicts; the text is `upstream.store_conflicts` in `migrations/`.
    static let conflicts = calling("store_conflicts", parameters: 13)

    /// Quarantined stanzas, each copy counted; the text is `upstream.store_quarantine` in `migrations/`.
    static let quarantine = calling("store_quarantine", parameters: 7)

    /// Serializes loads.
    static let lockLoads: SQL = "SELECT pg_advisory_xact_lock(hashtextextended('upstream.load', 0))"

    /// The ledger's rows for some keys, for callers that rely on none of it.
    static func known(_ keys: [Digest128]) -> SQL {
        "SELECT message_key, fingerprint, received_at FROM upstream.message_ids WHERE message_key = ANY (\(keys))"
    }

    /// Deletes every handler's deliveries of some messages.
    static func deleteDeliveries(of keys: [Digest128]) -> SQL {
        "DELETE FROM upstream.deliveries WHERE message_key = ANY (\(keys))"
    }

    /// Calls a function that returns one row; no row if the times are refused.
    ///
    /// The function takes the first `count` parameters; the two after those are the times. The first parameter goes
    /// through the condition's row, so that the function can't be called without it.
    private static func calling(_ function: String, parameters count: Int) -> PostgresStatement {
        let others = (2...count).map { "$\($0)" }.joined(separator: ", ")
        return PostgresStatement(
            """
            SELECT stored.* FROM (SELECT $1 AS first WHERE \(areDated(count + 1)) OFFSET 0) AS dated
            CROSS JOIN LATERAL upstream.\(function)(dated.first, \(others)) AS stored
            """
        )
    }

    /// A condition: the times in parameters `first` and the next are within ``StampLimits``, or null.
    ///
    /// Checked here, since only the database knows its time when it stores: its clock, or ours, may have been set since
    /// the last reading.
    private static func areDated(_ first: Int) -> String {
        """
        ($\(first)::timestamptz >= now() - interval '\(StampLimits.oldest.components.seconds) s'
            AND $\(first + 1)::timestamptz <= now() + interval '\(StampLimits.ahead.components.seconds) s') IS NOT FALSE
        """
    }
}
