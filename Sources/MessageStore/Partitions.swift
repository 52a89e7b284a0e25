package import Postgres
package import Vocabulary

/// A day of UTC, counted from 1970-01-01.
package struct UTCDay: Sendable, Hashable, Comparable {
    /// Days since 1970-01-01.
    package var number: Int64

    package init(number: Int64) { self.number = number }

    package init(_ time: Timestamp) { number = time.daysSince1970 }

    /// The day of a time in microseconds since 1970-01-01 UTC.
    package init(microseconds: Int64) { self.init(Timestamp(microseconds: microseconds)) }

    /// Today by the system's clock.
    package static func today() -> UTCDay { UTCDay(.now) }

    package static func < (lhs: UTCDay, rhs: UTCDay) -> Bool { lhs.number < rhs.number }

    /// The day's first moment.
    package var start: Timestamp { Timestamp(microseconds: number * Timestamp.day) }

    /// The next day's first moment.
    package var end: Timestamp { Timestamp(microseconds: (number + 1) * Timestamp.day) }
}

extension UTCDay: SQLDecodable {
    /// Reads a `timestamptz`.
    package init(_ field: SQLField) throws(SQLFieldFault) { self.init(try Timestamp(field)) }
}

package enum Partitions {
    /// The days that can have a partition: 2000-01-01 to 2100-12-31.
    ///
    /// Anything else is an error of a clock or a file. `upstream.ensure_partitions` has the same limits.
    package static let days = UTCDay(number: 10_957)...UTCDay(number: 47_846)

    /// Creates the partitions from the day before to seven days after; returns how many were missing.
    package static func ensure(
        _ connection: isolated PostgresConnection,
        around day: UTCDay
    ) throws(PostgresError) -> Int {
        let span = span(around: day)
        return try ensure(connection, from: span.lowerBound, to: span.upperBound)
    }

    /// The days whose partitions are to be there: from the day before to seven days after.
    static func span(around day: UTCDay) -> ClosedRange<UTCDay> {
        UTCDay(number: day.number - 1)...UTCDay(number: day.number + 7)
    }

    /// Creates the partitions of these days; returns how many were missing.
    ///
    /// Safe with concurrent calls and running inserts. A day counts as covered by any attached partition, whatever its
    /// name.
    package static func ensure(
        _ connection: isolated PostgresConnection,
        from first: UTCDay,
        to last: UTCDay
    ) throws(PostgresError) -> Int {
        try connection.run(PartitionStatements.ensure(from: first, to: last)).value()
    }

    /// Gives every day the index for lookups by `message_id`, if a sender's ids are unique only per device.
    ///
    /// Reads the days that lack it once, which may take minutes, while inserts go on. Must run outside a transaction.
    /// After a failure, the next call continues.
    ///
    /// - Returns: How many days with messages lacked it; 0 if no sender needs it.
    package static func filterIDs(_ connection: isolated PostgresConnection) throws(PostgresError) -> Int {
        let _: Int = try connection.run(PartitionStatements.filterIDs).value()
        let days: [[String]] = try connection.run(PartitionStatements.unfilteredDays).rows { [$0, $1, $2] }
        // One by one: several statements in one script form a transaction.
        for day in days {
            for statement in day { try connection.script(statement) }
        }
        return days.count
    }
}

/// The partitions of the history of attempts.
package enum AttemptDays {
    /// Creates the partitions from the day before to seven days after.
    ///
    /// Nothing is lost without them: rows without a partition go to `attempt_batches_rest`.
    ///
    /// - Returns: How many were missing; nil if the table was in use, so that it has to be tried again.
    package static func ensure(
        _ connection: isolated PostgresConnection,
        around day: UTCDay
    ) throws(PostgresError) -> Int? {
        let made: Int = try connection.run(AttemptStatements.ensure(Partitions.span(around: day))).value()
        return made < 0 ? nil : made
    }
}

/// The statements about the partitions of `messages`.
enum PartitionStatements {
    /// Creates the missing partitions of some days, and counts them.
    static func ensure(from first: UTCDay, to last: UTCDay) -> SQL {
        "SELECT upstream.ensure_partitions(\(first.date), \(last.date))"
    }

    /// Gives days without messages the index for lookups by id, if a sender needs it.
    static let filterIDs: SQL = "SELECT upstream.filter_ids()"

    /// The statements that build this index for the other days without blocking inserts, three for each day, newest
    /// first.
    ///
    /// They drop what an interrupted build has left.
    static let unfilteredDays: SQL = """
        SELECT
            format('DROP INDEX CONCURRENTLY IF EXISTS upstream.%I', day.index),
            format(
                'CREATE INDEX CONCURRENTLY %I ON upstream.%I %s', day.index, day.relname,
                substring(pg_get_indexdef(parent) FROM 'USING .*')
            ),
            format('ALTER INDEX upstream.messages_message_id_idx ATTACH PARTITION upstream.%I', day.index)
        FROM to_regclass('upstream.messages_message_id_idx') AS parent, (
            SELECT *, left(relname, 48) || '_message_id_idx' AS index FROM upstream.partitions()
        ) AS day
        WHERE EXISTS (SELECT FROM upstream.senders WHERE id_scope = 'device') AND NOT EXISTS (
            SELECT FROM pg_index AS x JOIN pg_inherits AS i ON i.inhrelid = x.indexrelid
            WHERE x.indrelid = day.relation AND i.inhparent = parent
        )
        ORDER BY day.since DESC
        """
}

/// The statements over the history's days; ``SettleStatements`` write it.
enum AttemptStatements {
    /// Creates the missing partitions of a span of days; -1 if that has to wait.
    static func ensure(_ days: ClosedRange<UTCDay>) -> SQL {
        "SELECT upstream.ensure_attempts(\(days.lowerBound.date), \(days.upperBound.date))"
    }

    /// Drops the days past their retention; null if another process is doing so.
    static let purge: SQL = "SELECT dropped, locked FROM upstream.purge_attempts()"
}

extension UTCDay {
    /// An expression of type `date`.
    var date: SQL { "date '1970-01-01' + \(number)::int4" }
}
