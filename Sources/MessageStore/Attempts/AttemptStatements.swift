import Postgres
import Vocabulary

/// Seconds as `real`, precise to seven digits; NaN stands for null.
struct Seconds: SQLElement {
    var value: Float

    init(_ duration: Duration) { value = Float(max(0, duration.inSeconds)) }

    /// Null, where the statement says so.
    static let none = Seconds(value: .nan)

    private init(value: Float) { self.value = value }

    static var postgresType: PostgresType { .float4 }

    func append(to parameters: inout PostgresParameters) {
        withUnsafeBytes(of: value.bitPattern.bigEndian) { parameters.append(bytes: $0, as: .float4) }
    }

    func appendElement(to parameters: inout PostgresParameters) {
        withUnsafeBytes(of: value.bitPattern.bigEndian) { parameters.element($0) }
    }
}

/// The statements over the history's days; ``SettleStatements`` write it.
enum AttemptStatements: StatementCatalog {
    /// Creates the missing partitions of a span of days; -1 if that has to wait.
    static func ensure(from first: UTCDay, to last: UTCDay) -> SQL {
        """
        SELECT upstream.ensure_attempts(
            date '1970-01-01' + \(first.number)::int4, date '1970-01-01' + \(last.number)::int4
        )
        """
    }

    /// Drops the days past their retention; null if another process is doing so.
    static let purge: SQL = "SELECT dropped, locked FROM upstream.purge_attempts()"

    package static var samples: [StatementSample] {
        [
            StatementSample("ensure", ensure(from: UTCDay(number: 20_000), to: UTCDay(number: 20_001))),
            StatementSample("purge", purge),
        ]
    }
}
