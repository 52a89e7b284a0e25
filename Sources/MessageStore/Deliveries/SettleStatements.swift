import Postgres

/// A settling statement, with and without the history of attempts.
struct Settling: Sendable {
    let recorded: PreparedStatement<SettlementRows>
    let plain: PreparedStatement<SettlementRows>

    fileprivate init(_ make: (_ isRecorded: Bool) -> PreparedStatement<SettlementRows>) {
        (recorded, plain) = (make(true), make(false))
    }
}

/// The statements that settle deliveries.
///
/// One statement writes settlement and history, so an attempt is recorded exactly if its settlement has committed. Those of
/// rows return how many were still ours, by device.
enum SettleStatements {
    /// A part of a statement.
    typealias Part = PreparedStatement<SettlementRows>

    /// The row of `input` (key, token), if its lease is still ours.
    ///
    /// Found by key alone, which ``PostgresSettings/findsRowsByIndex``, the `||` and the array enforce: otherwise the
    /// planner may walk all of the handler's deliveries, or in the order of their keys all there are, which it believes
    /// to be few.
    static let isHeld: Part = """
        message_key = ANY (ARRAY[key]) AND handler || '' = \(\.handler) AND lease_token = token AND lease_owner IS NOT NULL
        """

    // MARK: Rows

    /// Completes deliveries.
    ///
    /// If all rows were still ours and first attempts, the arrays are stored as they came, cut by second, instead of
    /// row by row.
    static let complete = settling(
        "DELETE FROM upstream.deliveries USING",
        number: "attempts + 1",
        "done",
        isQuick: true
    ) {
        guard $0 else { return "" }
        return """
            , checked AS MATERIALIZED (
                SELECT count(*) = cardinality(\(\.keys)) AND max(number) = 1 AND cardinality(\(\.history.lows)) > 0 AS is_whole
                FROM ended
            ), noted_whole AS (
                \(notedParts) WHERE (SELECT is_whole FROM checked)
            ), \(noted(where: "NOT (SELECT is_whole FROM checked)"))
            """
    }

    /// Releases deliveries for another attempt.
    static let retry = settling(
        """
        UPDATE upstream.deliveries SET attempts = attempts + 1, crashes = 0, last_error = error, \(givenBack) FROM
        """,
        (", \(\.delays), \(\.errors), \(\.groups)", ", delay, error, failure_group"),
        number: "attempts",
        "retry"
    )

    /// Releases deliveries without a counted attempt.
    static let release = settling(
        "UPDATE upstream.deliveries SET \(givenBack) FROM",
        (", \(\.delays)", ", delay"),
        number: "attempts + 1",
        "released"
    )

    /// As ``release``, recording what went wrong.
    static let postpone = settling(
        "UPDATE upstream.deliveries SET last_error = error, \(givenBack) FROM",
        (", \(\.delays), \(\.errors), \(\.groups)", ", delay, error, failure_group"),
        number: "attempts + 1",
        "released"
    )

    private static let givenBack: Part = "next_attempt_at = now() + delay, lease_owner = NULL, lease_until = NULL"

    /// Makes deliveries dead letters.
    static let setAside = settling(
        "DELETE FROM upstream.deliveries USING",
        (
            ", \(\.counted), \(\.errors), \(\.groups), \(\.outcomes)",
            ", counted, failure, failure_group, outcome"
        ),
        number: "greatest(attempts + counted, 1)::integer",
        nil
    ) { isRecorded in
        """
        , dead AS (
            \(raw: DeadLetterStatements.bury)
        )\(isRecorded ? ", \(noted())" : "")
        """
    }

    /// A settlement of rows: `change` is the statement up to its input, whose columns after key and token are `columns`.
    ///
    /// Rows are locked in the order of their keys, as heartbeats do, which may come at the same time.
    /// A nil `outcome` is a column of the input. `isQuick` does not wait for the disk: after a server crash these are
    /// delivered again, which at-least-once allows. `further` has more parts, over the rows that have `ended`.
    private static func settling(
        _ change: Part,
        _ columns: (values: Part, names: String) = ("", ""),
        number: String,
        _ outcome: String?,
        isQuick: Bool = false,
        _ further: (_ isRecorded: Bool) -> Part = { $0 ? ", \(noted())" : "" }
    ) -> Settling {
        let group = columns.names.contains("failure_group") ? "failure_group" : "NULL::text AS failure_group"
        // A dead letter keeps every column.
        let kept = outcome == nil ? "deliveries.*, counted, failure" : "message_key, received_at, device_key, replay_id"
        let told = "\(number) AS number, \(outcome.map { "'\($0)'::text AS outcome" } ?? "outcome"), \(group)"
        return Settling { isRecorded in
            """
            WITH \(isQuick ? "\(quick), " : "")ended AS (
                \(change) (
                    SELECT * FROM unnest(
                        \(\.keys), \(\.tokens)\(columns.values)\(isRecorded ? ", \(\.history.ages), \(\.history.durations)" : "")
                    ) AS each (key, token\(raw: columns.names)\(raw: isRecorded ? ", age, duration" : "")) ORDER BY key
                ) AS input\(raw: isQuick ? ", quick" : "")
                WHERE \(isHeld)
                RETURNING \(raw: kept), \(raw: told)\(raw: isRecorded ? ", age, duration" : "")
            )\(further(isRecorded))
            SELECT device_key, replay_id IS NOT NULL, count(*) FROM ended GROUP BY 1, 2
            """
        }
    }

    private static let quick: Part = "quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))"

    /// Records what has `ended`: one row for attempts with the same outcome whose messages arrived in the same second.
    private static func noted(where condition: String = "true") -> Part {
        """
        noted AS (
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, numbers,
                error_groups
            )
            SELECT
                now(), \(\.handler), \(\.history.worker), outcome, min(received_at), max(received_at), array_agg(message_key),
                array_agg(age), array_agg(nullif(duration, 'NaN')), CASE WHEN max(number) > 1 THEN array_agg(number) END,
                CASE WHEN count(failure_group) > 0 THEN array_agg(failure_group) END
            FROM ended WHERE \(raw: condition) GROUP BY date_bin('1 second', received_at, 'epoch'), outcome
        )
        """
    }

    /// Records what is done without a cost per message: the arrays arrive in their stored form and are only cut.
    private static let notedParts: Part = """
        INSERT INTO upstream.attempt_batches (
            settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations
        )
        SELECT
            now(), \(\.handler), \(\.history.worker), 'done', first, last, (\(\.keys))[low:high],
            (\(\.history.ages))[low:high], (\(\.history.durations))[low:high]
        FROM unnest(
            \(\.history.lows), \(\.history.highs), \(\.history.firsts), \(\.history.lasts), \(\.history.blocks)
        ) AS part (low, high, first, last, block)
        """

    // MARK: Blocks

    /// Deletes blocks in which everything is done, if they hold as many deliveries as this worker knows; returns their
    /// numbers.
    static let completeBlocks = Settling { isRecorded in
        """
        WITH \(quick), gone AS (
            DELETE FROM upstream.delivery_blocks
            USING unnest(\(\.numbers), \(\.counts)) AS input (given, size), quick
            WHERE token = \(\.token) AND handler = \(\.handler) AND number = given AND cardinality(keys) = size
            RETURNING number
        )\(isRecorded ? ", noted AS (\(notedParts) WHERE block IN (SELECT number FROM gone))" : "")
        SELECT number FROM gone
        """
    }

    /// Turns blocks into rows, except what is done, and returns how many were done; the texts are in `migrations/`.
    static let unpack = Settling { isRecorded in
        let history: Part = isRecorded ? ", \(\.history.worker), \(\.history.ages), \(\.history.durations)" : ""
        return "SELECT upstream.unpack_deliveries(\(\.token), \(\.handler), \(\.numbers), \(\.keys)\(history))"
    }
}
