import Postgres
import Vocabulary

/// The statements of the receive path.
///
/// None can fail in a way that makes PostgreSQL log what a row holds: the functions catch what says something about a row. Each
/// fails where less was stored than there was to store.
enum StoreStatements: StatementCatalog {
    /// New ledger rows, their bodies and their deliveries.
    ///
    /// After the rows come a lease offer (seven), the senders with what their keys are derived from (two), and three switches. The text
    /// is `upstream.store_batch` in `migrations/`.
    static let insert = PostgresStatement(
        """
        SELECT * FROM upstream.store_batch(
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
            $24, $25, $26, $27, $28, $29
        )
        """
    )

    /// One new message that no handler subscribes to; false for all that ``insert`` has to do.
    ///
    /// The text is `upstream.store_one` in `migrations/`.
    static let insertOne = PostgresStatement(
        "SELECT upstream.store_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
    )

    /// The ledger's rows for some keys, from a transaction that waits for the standbys too: acks rely on it.
    ///
    /// The text is `upstream.known_messages` in `migrations/`.
    static let ledger = PostgresStatement(
        "SELECT message_key, fingerprint, received_at FROM upstream.known_messages($1)"
    )

    /// Conflicts; the text is `upstream.store_conflicts` in `migrations/`.
    static let conflicts = PostgresStatement(
        "SELECT * FROM upstream.store_conflicts($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
    )

    /// Quarantined stanzas, counted once for each copy; the text is `upstream.store_quarantine` in `migrations/`.
    static let quarantine = PostgresStatement("SELECT * FROM upstream.store_quarantine($1, $2, $3, $4, $5, $6, $7)")

    /// One load at a time.
    static let lockLoads: SQL = "SELECT pg_advisory_xact_lock(hashtextextended('upstream.load', 0))"

    /// Deletes every handler's deliveries of some messages.
    static func deleteDeliveries(of keys: [Digest128]) -> SQL {
        "DELETE FROM upstream.deliveries WHERE message_key = ANY (\(keys))"
    }

    static var samples: [StatementSample] {
        let rows: [PostgresType] = [.text, .text, .uuid, .text, .text, .text, .text, .text, .text]
        // With the batch's one sender and its address before it.
        let offer: [PostgresType] = [.text, .text, .text, .int8, .int8, .text.array, .text.array, .text.array, .int8]
        let stanzas: [PostgresType] = [.text, .text, .text, .text, .bytea, .timestamptz, .bytea]
        return [
            StatementSample(
                "insert",
                insert,
                arrays: [.uuid, .uuid, .timestamptz, .uuid, .timestamptz, .text] + rows,
                offer + [.text.array, .text.array, .bool, .bool, .bool]
            ),
            StatementSample(
                "insertBefore",
                insertBefore,
                arrays: [.uuid, .uuid, .timestamptz, .uuid, .timestamptz, .text] + rows,
                offer
            ),
            StatementSample("insertOne", insertOne, [.uuid, .uuid, .timestamptz, .text, .text] + rows),
            StatementSample("ledger", ledger, arrays: [.uuid]),
            StatementSample("conflicts", conflicts, arrays: [.uuid, .uuid, .timestamptz, .text] + rows),
            StatementSample("quarantine", quarantine, arrays: stanzas),
            StatementSample("quarantineBefore", quarantineBefore, arrays: stanzas),
            StatementSample("lockLoads", lockLoads),
            StatementSample("deleteDeliveries", deleteDeliveries(of: [])),
        ]
    }
}
