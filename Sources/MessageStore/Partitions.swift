package import Postgres
package import Vocabulary

/// A day of UTC, counted from 1970-01-01.
package struct UTCDay: Sendable, Hashable, Comparable {
    /// Days since 1970-01-01.
    package var number: Int64

    /// The day so many days after 1970-01-01.
    package init(number: Int64) { self.number = number }

    /// The day that holds a time.
    package init(_ time: Timestamp) { number = time.daysSince1970 }

    /// The day that holds a time in microseconds since 1970-01-01 UTC.
    package init(microseconds: Int64) { self.init(Timestamp(microseconds: microseconds)) }

    /// The present day by the system's clock.
    package static func today() -> UTCDay { UTCDay(.now) }

    package static func < (lhs: UTCDay, rhs: UTCDay) -> Bool { lhs.number < rhs.number }
}

/// The daily partitions of `messages`.
package enum Partitions {
    /// The days that can have one: 2000-01-01 to 2100-12-31.
    ///
    /// Anything else is a clock's mistake, or a file's. `upstream.ensure_partitions` holds the same limits.
    package static let days = UTCDay(number: 10_957)...UTCDay(number: 47_846)

    /// Makes the partitions of a day and its neighbours: from the day before to seven days after.
    ///
    /// - Returns: How many were missing.
    package static func ensure(
        _ connection: isolated PostgresConnection,
        around day: UTCDay
    ) throws(PostgresError) -> Int {
        try ensure(connection, from: UTCDay(number: day.number - 1), to: UTCDay(number: day.number + 7))
    }

    /// Makes the partitions of these days.
    ///
    /// Concurrent calls and running inserts are safe. A day counts as made where an attached partition covers it, whatever
    /// that is called.
    ///
    /// - Returns: How many were missing.
    package static func ensure(
        _ connection: isolated PostgresConnection,
        from first: UTCDay,
        to last: UTCDay
    ) throws(PostgresError) -> Int {
        try connection.run(PartitionStatements.ensure(from: first, to: last)).value()
    }
    /// Gives every day the index for look-ups by `message_id`, where a sender's ids are unique for a device only.
    ///
    /// Reads the days that lack it once, which may take minutes, while inserts go on. Not within a transaction. Where it
    /// fails, the next call goes on.
    ///
    /// - Returns: How many days with messages lacked it; 0 where no sender needs it.
    package static func filterIDs(_ connection: isolated PostgresConnection) throws(PostgresError) -> Int {
        let _: Int = try connection.run(PartitionStatements.filterIDs).value()
        let days = try connection.run(PartitionStatements.unfilteredDays).map { row throws(PostgresError) in
            [try row.next(String.self), try row.next(String.self), try row.next(String.self)]
        }
        // One by one: several statements in one script are a transaction.
        for day in days {
            for statement in day { try connection.script(statement) }
        }
        return days.count
    }
}
