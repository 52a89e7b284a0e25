import Dispatcher
import Postgres
import Vocabulary

/// The statements of a database function's call.
enum FunctionStatements {
    /// A delivery, and the key of its message's row.
    struct Delivery: Sendable {
        /// Its place in the call.
        var place = 0
        var key: Digest128
        var receivedAt: Timestamp
        /// The fencing token of its lease.
        var token: Int64 = 0

        var lease: LeaseReference { LeaseReference(messageKey: key, token: token) }
    }

    /// Deliveries of one call.
    struct Values: Sendable {
        var handler = ""
        var worker = ""
        var keys: [Digest128]
        var times: [Timestamp]
        var tokens: [Int64] = []
        /// How long ago the call began.
        var age = Duration.zero
        /// Each one's share of that.
        var took = Duration.zero
    }

    private typealias Part = PreparedStatement<Values>

    private static let messages: Part =
        "unnest(\(\.keys), \(\.times)) WITH ORDINALITY AS input (key, arrival, place), upstream.message_of(key, arrival) AS message"

    /// Calls a function with messages, in their order: a row for each that exists; with an array, one row, or one for each
    /// answer, and none at all where a message is missing.
    ///
    /// What else it returns stays in PostgreSQL: its owners may give it another result type while sessions have the
    /// statement prepared. The quoted name can't be a parameter.
    static func call(_ function: SQLFunction, _ form: FunctionForm) -> PreparedStatement<Values> {
        let array: Part = """
            (SELECT array_agg(message ORDER BY place) AS whole, count(*) AS size FROM \(messages)) AS given
            """
        let isWhole: Part = "size = cardinality(\(\.keys))"
        func answering(_ answers: String) -> Part {
            """
            SELECT place, answer::text FROM \(array)
            LEFT JOIN LATERAL \(raw: answers) WITH ORDINALITY AS taken (answer, place) ON true
            WHERE \(isWhole) ORDER BY place
            """
        }
        return switch form {
        case .message:
            """
            SELECT called FROM \(messages),
                LATERAL (SELECT count(answer) FROM (SELECT \(raw: function.quoted)(message)) AS answer) AS taken (called)
            """
        case .messages:
            """
            SELECT called FROM \(array),
                LATERAL (SELECT count(answer) FROM (SELECT \(raw: function.quoted)(whole)) AS answer) AS taken (called)
            WHERE \(isWhole)
            """
        case .answers: answering("\(function.quoted)(whole)")
        case .answerArray: answering("unnest(\(function.quoted)(whole))")
        }
    }

    /// The ``FunctionForm`` of a function of this name that takes an array of messages.
    static func form(of function: SQLFunction) -> SQL {
        """
        SELECT CASE
            WHEN proretset AND prorettype IN ('pg_catalog.text'::regtype, 'pg_catalog.varchar'::regtype) THEN 'answers'
            WHEN NOT proretset AND prorettype IN ('pg_catalog.text[]'::regtype, 'pg_catalog.varchar[]'::regtype)
            THEN 'answerArray' ELSE 'messages' END
        FROM pg_catalog.pg_proc, pg_catalog.parse_ident(\(function.quoted)) AS parts
        WHERE proname = parts[cardinality(parts)] AND proargtypes[0] = 'upstream.messages[]'::regtype AND pronargs = 1
            AND provariadic = 0
            AND CASE
                WHEN cardinality(parts) = 1 THEN pg_catalog.pg_function_is_visible(pg_proc.oid)
                ELSE pronamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = parts[1])
            END
        """
    }

    /// Looks for the messages, as ``call(_:_:)`` does.
    static let find: PreparedStatement<Values> = "SELECT count(*) FROM \(messages)"

    /// Completes deliveries whose leases are still ours, and returns these leases.
    static let complete: PreparedStatement<Values> = "\(ended) RETURNING message_key, lease_token"

    /// ``complete``, which also writes the attempts to `upstream.attempts`, in the function's transaction.
    static let completeRecorded: PreparedStatement<Values> = """
        WITH ended AS (
            \(ended) RETURNING message_key, lease_token, received_at, attempts
        ), noted AS (
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, numbers
            )
            SELECT
                clock_timestamp(), \(\.handler), \(\.worker), 'done', min(received_at), max(received_at),
                array_agg(message_key), array_agg(extract(epoch FROM \(\.age))::real),
                array_agg(extract(epoch FROM \(\.took))::real),
                CASE WHEN max(attempts) > 0 THEN array_agg(attempts + 1) END
            FROM ended GROUP BY date_bin('1 second', received_at, 'epoch')
        )
        SELECT message_key, lease_token FROM ended
        """

    /// Found by key alone, which settings of the transaction, the `||` and the array enforce.
    private static let ended: Part = """
        DELETE FROM upstream.deliveries
        USING (SELECT * FROM unnest(\(\.keys), \(\.tokens)) AS each (key, token) ORDER BY key) AS input
        WHERE message_key = ANY (ARRAY[key]) AND handler || '' = \(\.handler) AND lease_token = token
        """

    static let isReadOnly: PreparedStatement<Void> = "SELECT current_setting('transaction_read_only') = 'on'"
}

extension PreparedStatement {
    /// Resolves names and checks rights as the statement does, and does nothing.
    var explained: PreparedStatement { "EXPLAIN \(self)" }
}
