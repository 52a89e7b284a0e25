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

/// The statements that settle deliveries and write their history, named as in ``DeliveryStatements``.
///
/// One statement writes both, so an attempt is recorded exactly if its settlement has committed.
enum AttemptStatements: StatementCatalog {
    // MARK: Rows

    /// Completes deliveries; returns how many.
    static let complete: PreparedStatement<LeaseRows> = """
        \(completion)
        SELECT count(*) FROM ended
        """

    /// The same for an ordered handler; returns the devices.
    static let completeByDevice: PreparedStatement<LeaseRows> = """
        \(completion)
        SELECT device_key FROM ended
        """

    /// If all rows were still ours and first attempts, the arrays are stored as they came, cut by second, instead of
    /// row by row.
    private static let completion: PreparedStatement<LeaseRows> = """
        WITH quick AS MATERIALIZED (
            SELECT set_config('synchronous_commit', 'off', true)
        ), ended AS (
            DELETE FROM upstream.deliveries
            USING unnest(\(\.keys), \(\.tokens), \(\.ages), \(\.durations)) AS input (key, token, age, duration), quick
            WHERE \(DeliveryStatements.isHeld)
            RETURNING message_key, received_at, device_key, age, duration, attempts + 1 AS number,
                'done'::text AS outcome, NULL::text AS failure_group
        ), checked AS MATERIALIZED (
            SELECT count(*) = cardinality(\(\.keys)) AND max(number) = 1 AND cardinality(\(\.lows)) > 0 AS is_whole
            FROM ended
        ), noted_whole AS (
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations
            )
            SELECT
                now(), \(\.handler), \(\.worker), 'done', first, last, (\(\.keys))[low:high], (\(\.ages))[low:high],
                (\(\.durations))[low:high]
            FROM unnest(\(\.lows), \(\.highs), \(\.firsts), \(\.lasts)) AS part (low, high, first, last)
            WHERE (SELECT is_whole FROM checked)
        ), \(noted(where: "NOT (SELECT is_whole FROM checked)"))
        """

    /// Releases deliveries for another attempt; returns how many.
    static let retry: PreparedStatement<LeaseRows> = """
        WITH ended AS (
            UPDATE upstream.deliveries
            SET attempts = attempts + 1, crashes = 0, last_error = error,
                next_attempt_at = now() + delay, lease_owner = NULL, lease_until = NULL
            FROM unnest(
                \(\.keys), \(\.tokens), \(\.delays), \(\.errors), \(\.ages), \(\.durations), \(\.groups)
            ) AS input (key, token, delay, error, age, duration, failure_group)
            WHERE \(DeliveryStatements.isHeld)
            RETURNING message_key, received_at, age, duration, attempts AS number, 'retry'::text AS outcome, failure_group
        ), \(noted())
        SELECT count(*) FROM ended
        """

    /// Releases deliveries without a counted attempt; returns how many.
    static let release: PreparedStatement<LeaseRows> = """
        WITH ended AS (
            UPDATE upstream.deliveries
            SET next_attempt_at = now() + delay, lease_owner = NULL, lease_until = NULL
            FROM unnest(\(\.keys), \(\.tokens), \(\.delays), \(\.ages), \(\.durations))
                AS input (key, token, delay, age, duration)
            WHERE \(DeliveryStatements.isHeld)
            RETURNING message_key, received_at, age, duration, attempts + 1 AS number, 'released'::text AS outcome,
                NULL::text AS failure_group
        ), \(noted())
        SELECT count(*) FROM ended
        """

    /// As ``release``, recording what went wrong.
    static let postpone: PreparedStatement<LeaseRows> = """
        WITH ended AS (
            UPDATE upstream.deliveries
            SET next_attempt_at = now() + delay, last_error = error, lease_owner = NULL, lease_until = NULL
            FROM unnest(
                \(\.keys), \(\.tokens), \(\.delays), \(\.errors), \(\.ages), \(\.durations), \(\.groups)
            ) AS input (key, token, delay, error, age, duration, failure_group)
            WHERE \(DeliveryStatements.isHeld)
            RETURNING message_key, received_at, age, duration, attempts + 1 AS number, 'released'::text AS outcome,
                failure_group
        ), \(noted())
        SELECT count(*) FROM ended
        """

    /// Makes deliveries dead letters; returns the devices.
    static let setAside: PreparedStatement<LeaseRows> = """
        WITH ended AS (
            DELETE FROM upstream.deliveries
            USING unnest(
                \(\.keys), \(\.tokens), \(\.counted), \(\.errors), \(\.groups), \(\.ages), \(\.durations), \(\.outcomes)
            ) AS input (key, token, counted, failure, failure_group, age, duration, outcome)
            WHERE \(DeliveryStatements.isHeld)
            RETURNING deliveries.*, counted, failure, failure_group, age, duration, outcome,
                greatest(attempts + counted, 1)::integer AS number
        ), dead AS (
            \(DeliveryStatements.bury(from: "ended"))
        ), \(noted())
        SELECT device_key FROM dead
        """

    /// Records what has `ended`: one row for attempts with the same outcome whose messages arrived in the same second.
    private static func noted(where condition: String = "true") -> LeasePart {
        """
        noted AS (
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, numbers,
                error_groups
            )
            SELECT
                now(), \(\.handler), \(\.worker), outcome, min(received_at), max(received_at), array_agg(message_key),
                array_agg(age), array_agg(nullif(duration, 'NaN')), CASE WHEN max(number) > 1 THEN array_agg(number) END,
                CASE WHEN count(failure_group) > 0 THEN array_agg(failure_group) END
            FROM ended WHERE \(raw: condition) GROUP BY date_bin('1 second', received_at, 'epoch'), outcome
        )
        """
    }

    // MARK: Blocks

    /// Deletes blocks in which everything is done, and returns their numbers.
    ///
    /// No cost per message: the arrays arrive in their stored form and are only cut.
    static let completeBlocks: PreparedStatement<BlockRows> = """
        WITH quick AS MATERIALIZED (
            SELECT set_config('synchronous_commit', 'off', true)
        ), gone AS (
            DELETE FROM upstream.delivery_blocks
            USING unnest(\(\.numbers), \(\.counts)) AS input (given, size), quick
            WHERE token = \(\.token) AND handler = \(\.handler) AND number = given AND cardinality(keys) = size
            RETURNING number
        ), noted AS (
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations
            )
            SELECT
                now(), \(\.handler), \(\.worker), 'done', first, last, (\(\.done))[low:high], (\(\.ages))[low:high],
                (\(\.durations))[low:high]
            FROM unnest(\(\.parts), \(\.lows), \(\.highs), \(\.firsts), \(\.lasts)) AS part (block, low, high, first, last)
            WHERE block IN (SELECT number FROM gone)
        )
        SELECT number FROM gone
        """

    /// Turns blocks into rows, except what is done, and returns how many were done; the text is in `migrations/`.
    static let unpack: PreparedStatement<BlockRows> = """
        SELECT upstream.unpack_deliveries(
            \(\.token), \(\.handler), \(\.numbers), \(\.done), \(\.worker), \(\.ages), \(\.durations)
        )
        """

    // MARK: Days

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
            StatementSample("complete", complete), StatementSample("completeByDevice", completeByDevice),
            StatementSample("retry", retry), StatementSample("release", release),
            StatementSample("postpone", postpone), StatementSample("setAside", setAside),
            StatementSample("completeBlocks", completeBlocks), StatementSample("unpack", unpack),
            StatementSample("ensure", ensure(from: UTCDay(number: 20_000), to: UTCDay(number: 20_001))),
            StatementSample("purge", purge),
        ]
    }
}
