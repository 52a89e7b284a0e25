package import Postgres

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
        let days = AttemptStatements.ensure(from: UTCDay(number: day.number - 1), to: UTCDay(number: day.number + 7))
        let made: Int = try connection.run(days).value()
        return made < 0 ? nil : made
    }
}
