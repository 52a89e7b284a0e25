import Postgres
import Vocabulary

enum ErasureStatements {
    /// A place where content is stored.
    struct Bodies: Sendable {
        /// Its quoted name.
        let table: String
        /// The day's partition of `messages` that it is or belongs to, by its plain name; nil for other tables.
        var day: String?
        /// The key of the deliveries of a row's content.
        fileprivate var key = "message_key"

        static func day(_ partition: String, _ table: String) -> Bodies { Bodies(table: table, day: partition) }
        static let deadMessages = Bodies(table: "upstream.dead_messages")
        static let conflicts = Bodies(
            table: "upstream.conflicts",
            key: "upstream.release_key(message_key, fingerprint)"
        )
    }

    /// All partitions, and the tables with their rows, quoted by `format` for use in statements.
    ///
    /// A site may divide a day further; places of rows are unique in one table alone.
    static let partitions: SQL = """
        SELECT p.relname::text, format('%I.%I', n.nspname, c.relname)
        FROM upstream.partitions() AS p CROSS JOIN LATERAL pg_partition_tree(p.relation) AS part
        JOIN pg_class AS c ON c.oid = part.relid JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE part.isleaf ORDER BY p.since, part.relid
        """

    /// The registration token that a device's bodies hold, up to three times.
    static func tokens(of device: Digest128) -> SQL {
        .joined(
            ["messages", "dead_messages", "conflicts"].map { table in
                "(SELECT registration_token FROM upstream.\(raw: table) WHERE device_key = \(device) LIMIT 1)"
            },
            separator: " UNION ALL "
        )
    }

    /// Waits for the end of retention's current transaction, if there is one.
    static let awaitRetention: SQL = "SELECT pg_advisory_xact_lock(hashtextextended('upstream.retention', 0))"

    /// Counts a device's rows in each table except the quarantine.
    ///
    /// Without OR: that would be a subplan, which is hashed only where the planner expects it to fit into `work_mem`, and
    /// else is read once for each delivery.
    static func count(of device: Digest128) -> SQL {
        func entries(_ table: String) -> SQL {
            """
            (SELECT count(*) FROM upstream.\(raw: table) WHERE message_key IN (
                SELECT key FROM known UNION SELECT message_key FROM upstream.\(raw: table) WHERE device_key = \(device)))
            """
        }
        return """
            WITH body AS MATERIALIZED (
                SELECT message_key AS key FROM upstream.messages WHERE device_key = \(device)
            ), content AS MATERIALIZED (
                SELECT upstream.release_key(message_key, fingerprint) AS key
                FROM upstream.conflicts WHERE device_key = \(device)
            ), kept AS MATERIALIZED (
                SELECT message_key AS key FROM upstream.dead_messages WHERE device_key = \(device)
            ), known AS MATERIALIZED (
                SELECT key FROM body UNION ALL SELECT key FROM content UNION ALL SELECT key FROM kept
            )
            SELECT
                (SELECT count(*) FROM body),
                (SELECT count(*) FROM kept),
                (SELECT count(*) FROM content),
                \(entries("deliveries")), \(entries("dead_letters"))
            """
    }

    /// Locks some bodies of a device; returns their deliveries' keys, their places and when they were received.
    static func choose(_ bodies: Bodies, of device: Digest128, atMost rows: Int64) -> SQL {
        """
        SELECT \(raw: bodies.key), ctid::text, received_at FROM \(raw: bodies.table)
        WHERE device_key = \(device) LIMIT \(rows) FOR UPDATE
        """
    }

    /// Deletes and counts locked bodies by place, and writes their keys for copies elsewhere.
    static func delete(_ bodies: Bodies, at places: [String]) -> SQL {
        """
        WITH gone AS (
            DELETE FROM \(raw: bodies.table) WHERE ctid = ANY (\(places)::tid[]) RETURNING device_key, message_key
        ), written AS (
            INSERT INTO upstream.erasures (device_key, message_key, erased_at)
            SELECT device_key, message_key, now() FROM gone
        )
        SELECT count(*) FROM gone
        """
    }

    /// Tells copies elsewhere to erase what they have of a device from before a time.
    static func record(_ device: Digest128, until time: Timestamp) -> SQL {
        "INSERT INTO upstream.erasures (device_key, erased_at) VALUES (\(device), \(time))"
    }

    /// Removes handlers' error groups for some messages from the history, since they may quote them.
    static func conceal(_ keys: [Digest128], receivedAt times: [Timestamp]) -> SQL {
        """
        UPDATE upstream.attempt_batches AS b
        SET error_groups = ARRAY(
            SELECT CASE WHEN e.failure IS NULL OR e.key <> ALL (\(keys)) THEN e.failure ELSE 'erased' END
            FROM unnest(b.keys, b.error_groups) WITH ORDINALITY AS e (key, failure, place) ORDER BY e.place
        )
        FROM unnest(\(keys), \(times)) AS gone (key, at)
        WHERE b.first_received > gone.at - interval '1 second' AND b.first_received <= gone.at
            AND b.last_received >= gone.at AND b.error_groups IS NOT NULL AND b.keys @> ARRAY[gone.key]
        """
    }

    /// Deletes and counts the deliveries and dead letters of some messages.
    static func dequeue(_ keys: [Digest128]) -> SQL {
        """
        WITH waiting AS (
            DELETE FROM upstream.deliveries WHERE message_key = ANY (\(keys)) RETURNING 1
        ), dead AS (
            DELETE FROM upstream.dead_letters WHERE message_key = ANY (\(keys)) RETURNING 1
        )
        SELECT (SELECT count(*) FROM waiting), (SELECT count(*) FROM dead)
        """
    }

    /// Deletes the deliveries and dead letters without a body that name a device or an erased message of it.
    static func rest(of device: Digest128) -> SQL {
        """
        WITH named AS MATERIALIZED (
            SELECT message_key FROM upstream.erasures WHERE device_key = \(device)
            UNION SELECT message_key FROM upstream.deliveries WHERE device_key = \(device)
            UNION SELECT message_key FROM upstream.dead_letters WHERE device_key = \(device)
        ), waiting AS (
            DELETE FROM upstream.deliveries AS d
            WHERE message_key IN (SELECT message_key FROM named)
                AND NOT EXISTS (SELECT FROM upstream.message_of(d.message_key, d.received_at))
            RETURNING message_key, received_at
        ), dead AS (
            DELETE FROM upstream.dead_letters AS d
            WHERE message_key IN (SELECT message_key FROM named)
                AND NOT EXISTS (SELECT FROM upstream.message_of(d.message_key, d.received_at))
            RETURNING message_key, received_at
        )
        SELECT message_key, received_at, false FROM waiting UNION ALL SELECT message_key, received_at, true FROM dead
        """
    }

    static let lastQuarantined: SQL = "SELECT max(id) FROM upstream.quarantine"

    /// At most 500 rows, and 8 MiB not counting the last.
    static func stanzas(after id: Int64) -> SQL {
        """
        SELECT id, stanza FROM (
            SELECT id, stanza, sum(octet_length(stanza)) OVER (ORDER BY id) - octet_length(stanza) AS before
            FROM (SELECT id, stanza FROM upstream.quarantine WHERE id > \(id) ORDER BY id LIMIT 500) AS next
        ) AS part
        WHERE before < 8 << 20 ORDER BY id
        """
    }

    static func deleteQuarantined(_ ids: [Int64]) -> SQL { "DELETE FROM upstream.quarantine WHERE id = ANY (\(ids))" }

    /// Removes dead rows from a table's pages, and their values from the statistics.
    static func vacuum(_ table: String) -> String { "VACUUM (ANALYZE) \(table)" }
}
