package import Postgres

/// The state of the store at one moment, from PostgreSQL's catalog and counters; no table of messages is read.
package struct StoreStatistics: Sendable {
    /// What the catalog and the counters say about one table, or about all partitions of `messages` together.
    package struct Table: Sendable {
        /// The table's name.
        package var name: String
        /// Rows: an estimate; nil where nothing is known yet.
        package var rows: Int64?
        /// Bytes on disk, with indexes.
        package var bytes: Int64
        /// Rows inserted since the counters were last reset.
        package var inserted: Int64
        /// Rows updated since then.
        package var updated: Int64
        /// Rows deleted since then.
        package var deleted: Int64
    }

    /// A category among the most common ones.
    package struct Category: Sendable {
        /// The category.
        package var name: String
        /// Its messages, estimated from what ANALYZE sampled.
        package var rows: Int64
    }

    /// When it was taken, by the server's clock: microseconds since 1970-01-01 UTC.
    package var takenAt: Int64
    /// Bytes of the whole database.
    package var databaseBytes: Int64
    /// The tables, by name.
    package var tables: [Table]
    /// The partitions' days, oldest first.
    package var days: [UTCDay]
    /// When the newest message was received: microseconds since 1970-01-01 UTC; nil where there is none.
    package var newest: Int64?
    /// The most common categories, the commonest first.
    package var categories: [Category]
    /// The handlers with what waits for them.
    package var handlers: [HandlerState]

    /// One table.
    package func table(_ name: String) -> Table? { tables.first { $0.name == name } }

    /// How many days from tomorrow on have a partition already.
    package var daysAhead: Int { days.count { $0 > UTCDay(microseconds: takenAt) } }

    /// Takes the figures.
    ///
    /// - Parameters:
    ///   - connection: A session that may select from the schema's tables.
    ///   - categories: How many categories at most.
    /// - Returns: The figures of this moment.
    /// - Throws: ``PostgresError``
    package static func take(
        _ connection: PostgresConnection,
        categories: Int = 10
    ) async throws(PostgresError) -> StoreStatistics {
        let handlers = try await HandlerStates(connection).list()
        return try await connection.run { connection throws(PostgresError) in
            let head = try connection.query(StatisticsStatements.head)
            let tables = try connection.query(StatisticsStatements.tables)
            let days = try connection.query(RetentionStatements.partitions)
            var parameters = PostgresParameters()
            parameters.append(Int64(categories))
            let common = try connection.query(StatisticsStatements.categories, parameters)
            return StoreStatistics(
                takenAt: head.timestamp(0, 0) ?? 0,
                databaseBytes: head.integer(0, 1) ?? 0,
                tables: (0..<tables.count).map { row in
                    func number(_ column: Int) -> Int64 { tables.integer(row, column) ?? 0 }
                    return Table(
                        name: tables.text(row, 0) ?? "",
                        rows: tables.integer(row, 1),
                        bytes: number(2),
                        inserted: number(3),
                        updated: number(4),
                        deleted: number(5)
                    )
                },
                days: (0..<days.count).compactMap { days.timestamp($0, 3).map(UTCDay.init(microseconds:)) },
                newest: head.timestamp(0, 2),
                categories: (0..<common.count).map { row in
                    Category(name: common.text(row, 0) ?? "", rows: common.integer(row, 1) ?? 0)
                },
                handlers: handlers
            )
        }
    }
}

/// What changed between two looks, for each second.
package struct StoreRates: Sendable, Equatable {
    /// New messages.
    package var stored: Double
    /// Copies of known messages with other content: new rows and counts in `conflicts`.
    package var conflicts: Double
    /// Quarantined copies: new rows and counts in `quarantine`.
    package var quarantined: Double
    /// Deliveries that became due: a message for each subscribed handler.
    package var queued: Double
    /// Deliveries that ended: done, or dead.
    package var settled: Double
    /// Deliveries that gave up.
    package var dead: Double

    /// The rates between two looks; nil where no time has passed.
    package init?(from first: StoreStatistics, to second: StoreStatistics) {
        let seconds = Double(second.takenAt - first.takenAt) / 1e6
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

private enum StatisticsStatements {
    /// The newest message is the last entry of an index, not a count.
    static let head = """
        SELECT clock_timestamp(), pg_database_size(current_database()), (SELECT max(received_at) FROM upstream.messages)
        """

    /// Partitions are added up under the name of their table.
    static let tables = """
        SELECT
            coalesce(parent.relname, c.relname)::text,
            sum(nullif(\(RetentionStatements.rows(of: "c")), -1))::bigint,
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

    /// What ANALYZE found most often in each partition, weighted with the partition's rows.
    static let categories = """
        SELECT value, sum(frequency * greatest(c.reltuples, 0))::bigint AS rows
        FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
        JOIN pg_stats ON schemaname = 'upstream' AND tablename = c.relname AND attname = 'category'
        CROSS JOIN unnest(most_common_vals::text::text[], most_common_freqs) AS common (value, frequency)
        WHERE inhparent = 'upstream.messages'::regclass
        GROUP BY value ORDER BY rows DESC, value LIMIT $1
        """
}
