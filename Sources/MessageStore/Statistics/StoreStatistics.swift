package import Postgres
package import Vocabulary

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

    /// When it was taken, by the server's clock.
    package var takenAt: Timestamp
    /// Bytes of the whole database.
    package var databaseBytes: Int64
    /// The tables, by name.
    package var tables: [Table]
    /// The partitions' days, oldest first.
    package var days: [UTCDay]
    /// When the newest message was received; nil where there is none.
    package var newest: Timestamp?
    /// The most common categories, the commonest first.
    package var categories: [Category]
    /// The handlers with what waits for them.
    package var handlers: [HandlerState]

    /// One table.
    package func table(_ name: String) -> Table? { tables.first { $0.name == name } }

    /// How many days from tomorrow on have a partition already.
    package var daysAhead: Int { days.count { $0 > UTCDay(takenAt) } }

    /// Takes the figures.
    ///
    /// - Parameters:
    ///   - connection: A session that may select from the schema's tables.
    ///   - categories: How many categories at most.
    ///   - limit: Where the counts of each handler's deliveries and dead letters stop.
    /// - Returns: The figures of this moment.
    /// - Throws: ``PostgresError``
    package static func take(
        _ connection: PostgresConnection,
        categories: Int = 10,
        counted limit: Int = 100_000
    ) async throws(PostgresError) -> StoreStatistics {
        let handlers = try await HandlerStates(connection).list(counted: limit)
        return try await connection.run { connection throws(PostgresError) in
            let tables = try connection.run(StatisticsStatements.tables).map { row throws(PostgresError) in
                Table(
                    name: try row.next(),
                    rows: try row.next(),
                    bytes: try row.next(),
                    inserted: try row.next(),
                    updated: try row.next(),
                    deleted: try row.next()
                )
            }
            let days = try connection.run(RetentionStatements.partitions).map { row throws(PostgresError) in
                UTCDay(try row.value("since", as: Timestamp.self))
            }
            let common = try connection.run(StatisticsStatements.categories(categories)).map {
                row throws(PostgresError) in
                Category(name: try row.next(), rows: try row.next())
            }
            return try connection.run(StatisticsStatements.head).only { row throws(PostgresError) in
                StoreStatistics(
                    takenAt: try row.next(),
                    databaseBytes: try row.next(),
                    tables: tables,
                    days: days,
                    newest: try row.next(),
                    categories: common,
                    handlers: handlers
                )
            }
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
