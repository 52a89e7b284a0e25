import Postgres

/// The statements about the partitions of `messages`.
enum PartitionStatements: StatementCatalog {
    /// Makes those of some days that are missing, and counts them.
    static func ensure(from first: UTCDay, to last: UTCDay) -> SQL {
        "SELECT upstream.ensure_partitions(\(date(first)), \(date(last)))"
    }

    private static func date(_ day: UTCDay) -> SQL { "date '1970-01-01' + \(day.number)::int4" }

    package static var samples: [StatementSample] {
        [StatementSample("ensure", ensure(from: UTCDay(number: 20_000), to: UTCDay(number: 20_001)))]
    }
}
