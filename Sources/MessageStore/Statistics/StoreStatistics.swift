package import Postgres
package import Vocabulary

/// A snapshot of the store, from PostgreSQL's catalog and counters; reads no table of messages.
package struct StoreStatistics: Sendable {
    /// The figures of one table, or of all partitions of `messages` together.
    package struct Table: Sendable {
        package var name: String
        /// An estimate; nil if unknown.
        package var rows: Int64?
        /// Bytes on disk, indexes included.
        package var bytes: Int64
        /// Rows since the counters were last reset, as are the next two.
        package var inserted: Int64
        package var updated: Int64
        package var deleted: Int64
    }

    /// A common category.
    package struct Category: Sendable {
        package var name: String
        /// Its messages, estimated from ANALYZE's samples.
        package var rows: Int64
    }

    /// When it was taken, by the server's clock.
    package var takenAt: Timestamp
    /// The size of the whole database.
    package var databaseBytes: Int64
    package var tables: [Table]
    /// The partitions' days, oldest first.
    package var days: [UTCDay]
    /// When the newest message was received; nil if there is none.
    package var newest: Timestamp?
    /// The most common categories, the largest first.
    package var categories: [Category]
    package var handlers: [HandlerState]

    package func table(_ name: String) -> Table? { tables.first { $0.name == name } }

    /// How many days from tomorrow on already have a partition.
    package var daysAhead: Int { days.count { $0 > UTCDay(takenAt) } }

    /// Takes a snapshot; the session must be able to select from the schema's tables.
    ///
    /// `limit` bounds the counts of each handler's deliveries and dead letters.
    package static func take(
        _ connection: PostgresConnection,
        categories: Int = 10,
        counted limit: Int = 100_000
    ) async throws(PostgresError) -> StoreStatistics {
        let handlers = try await HandlerStates(connection).list(counted: limit)
        let tables = try await connection.result(of: StatisticsStatements.tables).rows(Table.init)
        let days = try await connection.result(of: RetentionStatements.partitions).rows(Partition.init).map(\.day)
        let common = try await connection.result(of: StatisticsStatements.categories(categories)).rows(Category.init)
        return try await connection.result(of: StatisticsStatements.head).onlyRow {
            StoreStatistics(
                takenAt: $0,
                databaseBytes: $1,
                tables: tables,
                days: days,
                newest: $2,
                categories: common,
                handlers: handlers
            )
        }
    }
}

/// The changes between two snapshots, per second.
package struct StoreRates: Sendable, Equatable {
    package var stored: Double
    /// Copies of known messages with other content: new rows and counts in `conflicts`.
    package var conflicts: Double
    /// Quarantined copies: new rows and counts in `quarantine`.
    package var quarantined: Double
    /// New deliveries: one per message and subscribed handler.
    package var queued: Double
    /// Deliveries that ended: done, or dead.
    package var settled: Double
    /// New dead letters.
    package var dead: Double

    /// The rates between two snapshots; nil if no time has passed.
    package init?(from first: StoreStatistics, to second: StoreStatistics) {
        let seconds = (second.takenAt - first.takenAt).inSeconds
        guard seconds > 0 else { return nil }
        func rate(_ table: String, _ count: (StoreStatistics.Table) -> Int64) -> Double {
            let before = first.table(table).map(count) ?? 0
            let after = second.table(table).map(count) ?? 0
            // Counters fall when they are reset, and when a partition is dropped.
            return max(0, Double(after - before)) / seconds
        }
        stored = rate("message_ids", \.inserted)
        conflicts = rate("conflicts") { $0.inserted + $0.updated }
        quarantined = rate("quarantine") { $0.inserted + $0.updated }
        queued = rate("deliveries", \.inserted)
        settled = rate("deliveries", \.deleted)
        dead = rate("dead_letters", \.inserted)
    }
}

/// A sender with messages: a row of `upstream.senders`.
package struct StoredSender: Sendable, Equatable {
    package var senderID: String
    /// What its messages' keys are derived from: `sender` or `device`; both if the configuration was changed.
    package var idScopes: [String]

    /// All senders, by id; the table has a row or two for each.
    package static func list(_ connection: PostgresConnection) async throws(PostgresError) -> [StoredSender] {
        try await connection.result(of: SenderStatements.list).rows(StoredSender.init)
    }
}

enum StatisticsStatements {
    /// The newest message is an index's last entry, not a count.
    static let head: SQL = """
        SELECT clock_timestamp(), pg_database_size(current_database()), (SELECT max(received_at) FROM upstream.messages)
        """

    /// Partitions are summed under their table's name.
    static let tables: SQL = """
        SELECT
            coalesce(parent.relname, c.relname)::text,
            sum(nullif(\(raw: RetentionStatements.rows(of: "c")), -1))::bigint,
            sum(pg_total_relation_size(c.oid))::bigint,
            sum(pg_stat_get_tuples_inserted(c.oid))::bigint,
            sum(pg_stat_get_tuples_updated(c.oid))::bigint,
            sum(pg_stat_get_tuples_deleted(c.oid))::bigint
        FROM pg_class AS c
        LEFT JOIN pg_inherits ON inhrelid = c.oid
        LEFT JOIN pg_class AS parent ON parent.oid = inhparent
        WHERE c.relnamespace = 'upstream'::regnamespace AND c.relkind = 'r'
        GROUP BY 1 ORDER BY 1
        """

    /// The most common categories by ANALYZE's samples, weighted with the partitions' rows.
    static func categories(_ count: Int) -> SQL {
        """
        SELECT value, sum(frequency * greatest(c.reltuples, 0))::bigint AS rows
        FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
        JOIN pg_stats ON schemaname = 'upstream' AND tablename = c.relname AND attname = 'category'
        CROSS JOIN unnest(most_common_vals::text::text[], most_common_freqs) AS common (value, frequency)
        WHERE inhparent = 'upstream.messages'::regclass
        GROUP BY value ORDER BY rows DESC, value LIMIT \(count)
        """
    }
}

enum SenderStatements {
    /// The senders with messages, by id.
    static let list: SQL = """
        SELECT sender_id, array_agg(id_scope ORDER BY id_scope) FROM upstream.senders
        GROUP BY sender_id ORDER BY sender_id LIMIT 10000
        """
}
