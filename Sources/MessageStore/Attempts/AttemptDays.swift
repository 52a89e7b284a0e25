package import Postgres

/// The days of the history of attempts.
package enum AttemptDays {
    /// Makes the partitions of a day and its neighbours: from the day before to seven days after.
    ///
    /// Nothing is lost without them: what finds none waits in `attempt_batches_rest`.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: How many were missing; nil where the table was in use, so that it has to be tried again.
    package static func ensure(
        _ connection: isolated PostgresConnection,
        around day: UTCDay
    ) throws(PostgresError) -> Int? {
        let days = AttemptStatements.ensure(from: UTCDay(number: day.number - 1), to: UTCDay(number: day.number + 7))
        let made: Int = try connection.run(days).value()
        return made < 0 ? nil : made
    }
}
