import Postgres
import Vocabulary

/// The statements of the handler kind `sql`.
enum FunctionStatements {
    /// The key of a message's row.
    struct Message: Sendable {
        var key: Digest128
        var receivedAt: Timestamp
    }

    struct Delivery: Sendable {
        var key: Digest128
        var handler: String
        var token: Int64
        var worker = ""
        var age = Duration.zero
    }

    /// Calls a function with a message; the quoted name can't be a parameter.
    ///
    /// Not prepared: a function that its owners replace may come with another result type, on which a prepared
    /// statement would fail for the rest of the session.
    static func call(_ function: SQLFunction, _ message: Message) -> SQL {
        """
        SELECT \(raw: function.quoted)(message)
        FROM upstream.message_of(\(message.key), \(message.receivedAt)) AS message
        """
    }

    static let exists: PreparedStatement<Message> =
        "SELECT EXISTS (SELECT FROM upstream.message_of(\(\.key), \(\.receivedAt)))"

    static let complete: PreparedStatement<Delivery> = """
        DELETE FROM upstream.deliveries
        WHERE message_key = \(\.key) AND handler = \(\.handler) AND lease_token = \(\.token)
        """

    /// ``complete``, which also writes the attempt to the history (`upstream.attempts`): both commit with the
    /// function's effects.
    static let completeRecorded: PreparedStatement<Delivery> = """
        WITH ended AS (
            DELETE FROM upstream.deliveries
            WHERE message_key = \(\.key) AND handler = \(\.handler) AND lease_token = \(\.token)
            RETURNING received_at, attempts
        ), noted AS (
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, numbers
            )
            SELECT
                clock_timestamp(), \(\.handler), \(\.worker), 'done', received_at, received_at, ARRAY[\(\.key)],
                ARRAY[extract(epoch FROM \(\.age))::real], ARRAY[extract(epoch FROM \(\.age))::real],
                CASE WHEN attempts > 0 THEN ARRAY[attempts + 1] END
            FROM ended
        )
        SELECT FROM ended
        """

    static let isReadOnly: PreparedStatement<Void> = "SELECT current_setting('transaction_read_only') = 'on'"
}

extension SQL {
    var explained: SQL { "EXPLAIN \(self)" }
}
