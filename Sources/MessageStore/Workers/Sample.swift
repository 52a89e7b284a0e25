package import Postgres
package import Vocabulary

/// What a process did in a minute, of one subject: a row of `upstream.samples`.
package struct Sample: Sendable, Equatable, Encodable {
    package enum Kind: String, CaseIterable, Sendable, Encodable {
        case store, sender, handler
    }

    /// The minute's start, in RFC 3339.
    private var at: String
    package let kind: Kind
    /// The handler's name or the sender's id; empty for the store.
    package let subject: String
    package var received: UInt64?
    package var stored: UInt64?
    package var duplicates: UInt64?
    package var acked: UInt64?
    package var handled: UInt64?
    package var failed: UInt64?
    /// Attempts or acks by how long they took, in the buckets of ``Telemetry/Histogram/latencyBounds``.
    package var times: [UInt64]?
    package var waiting: Int?
    /// In seconds.
    package var oldest: Double?
    package var held: Bool?
    /// The version of a process in its first sample.
    package var started: String?

    /// A sample without figures, of a minute since 1970.
    package init(minute: Int64, kind: Kind, subject: String = "") {
        at = Timestamp(microseconds: minute * Self.minute).rfc3339
        (self.kind, self.subject) = (kind, subject)
    }

    /// A minute in microseconds.
    package static let minute: Int64 = 60_000_000
}

package enum Samples {
    /// Writes samples of a process; those that are there already, after a commit of unknown outcome, stay as they are.
    ///
    /// Doesn't wait for the disk or a standby.
    package static func write(
        _ connection: isolated PostgresConnection,
        _ samples: [Sample],
        of instance: Digest128
    ) throws(PostgresError) {
        try connection.run(SampleStatements.write(samples, of: instance))
    }

    /// Creates the partitions from the day before to seven days after; returns how many were missing.
    @discardableResult
    package static func ensure(
        _ connection: isolated PostgresConnection,
        around day: UTCDay
    ) throws(PostgresError) -> Int {
        try connection.run(SampleStatements.ensure(Partitions.span(around: day))).value()
    }
}

enum SampleStatements {
    static func write(_ samples: [Sample], of instance: Digest128) -> SQL {
        """
        WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
        INSERT INTO upstream.samples (
            at, kind, subject, instance, received, stored, duplicates, acked, handled, failed, times, waiting, oldest,
            held, started
        )
        SELECT
            at, kind, subject, \(instance), received, stored, duplicates, acked, handled, failed, times, waiting, oldest,
            held, started
        FROM quick, json_to_recordset(\(JSONColumn(encoding: samples))) AS sample (
            at timestamptz, kind text, subject text, received bigint, stored bigint, duplicates bigint, acked bigint,
            handled bigint, failed bigint, times integer[], waiting bigint, oldest double precision, held boolean,
            started text
        )
        ON CONFLICT DO NOTHING
        """
    }

    static func ensure(_ days: ClosedRange<UTCDay>) -> SQL {
        "SELECT upstream.ensure_samples(\(days.lowerBound.date), \(days.upperBound.date))"
    }

    /// Drops the days past their retention; null if another process is running retention.
    static func purge(keeping length: Duration) -> SQL { "SELECT upstream.purge_samples(\(length))" }
}
