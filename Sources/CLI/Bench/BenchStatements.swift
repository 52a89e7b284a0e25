import Postgres

enum BenchStatements {
    /// The number of pending deliveries.
    static let waiting: SQL = """
        SELECT (SELECT count(*) FROM upstream.deliveries)
            + (SELECT coalesce(sum(cardinality(keys)), 0) FROM upstream.delivery_blocks)::int8
        """
    /// The size of deliveries with their indexes, in bytes.
    static let deliveriesSize: SQL = "SELECT pg_total_relation_size('upstream.deliveries')"
    static let vacuum = "VACUUM upstream.deliveries"
    static let checkpoint = "CHECKPOINT"
    static let lockLedger = "BEGIN; LOCK TABLE upstream.message_ids IN ACCESS EXCLUSIVE MODE"
    static let unlock = "ROLLBACK"

    /// The number of rows that each transaction inserted, in order: rows of one transaction share its id.
    static let batchSizes: SQL = "SELECT count(*) FROM upstream.messages GROUP BY xmin::text ORDER BY min(received_at)"

    /// Creates a database; names come from this program only.
    static func create(_ name: String) -> String { "CREATE DATABASE \(name)" }

    static func drop(_ name: String) -> String { "DROP DATABASE \(name) WITH (FORCE)" }

    static func backlog(_ count: Int, sender: String) -> String {
        """
        INSERT INTO upstream.handlers (name) VALUES ('everything');
        INSERT INTO upstream.subscriptions (handler, category) VALUES ('everything', '*');
        CREATE TEMP TABLE made AS
            SELECT gen_random_uuid() AS key, now() + n * interval '1 microsecond' AS at, n
            FROM generate_series(1, \(count)) AS n;
        INSERT INTO upstream.messages (
            message_key, received_at, sender_id, message_id, registration_token, device_key, category, data
        ) SELECT key, at, '\(sender)', 'bench-' || n, 'FAKE', gen_random_uuid(), 'com.example.app',
            json_build_object('n', n, 'body', repeat('x', 300)) FROM made;
        INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT 'everything', key, at, now() FROM made;
        """
    }
}

enum DevStatements {
    /// Counts the stored messages of a run; a receipt's id is `dr2:` and the id of its message.
    static func stored(idPattern pattern: String) -> SQL {
        "SELECT count(*) FROM upstream.messages WHERE message_id LIKE \(pattern) OR message_id LIKE 'dr2:' || \(pattern)"
    }
}
