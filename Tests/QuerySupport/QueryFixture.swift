import DatabaseSupport
package import LocalDatabase
package import Postgres
package import Querying
import UpstreamKit
package import Vocabulary

/// One cluster for the whole suite, a database of its own for each test.
package enum SharedCluster {
    /// The cluster, started at the first use.
    package static let cluster = LocalCluster.forTests("query")
}

/// A message as a test wants it in the tables.
package struct Seed: Sendable {
    /// The message's id.
    package var id: String
    /// Its category.
    package var category: String
    /// Whom it was sent to.
    package var sender: String
    /// The device's registration token.
    package var token: String
    /// Its data as JSON text.
    package var data: String?
    /// Data that jsonb would refuse.
    package var raw: String?
    /// Its other members, as a JSON object.
    package var extra: String?
    /// Its message_type.
    package var type: String?
    /// The stanza's sender.
    package var from: String?
    /// Microseconds after ``QueryFixture/start``.
    package var at: Int64

    /// A message that differs from the default in what is given.
    package init(
        id: String,
        category: String = "com.example.orders",
        sender: String = "1234567890",
        token: String = "token-SECRET-a",
        data: String? = #"{"a":1}"#,
        raw: String? = nil,
        extra: String? = nil,
        type: String? = nil,
        from: String? = "devices@gcm.googleapis.com",
        at: Int64 = 0
    ) {
        (self.id, self.category, self.sender, self.token) = (id, category, sender, token)
        (self.data, self.raw, self.extra, self.type, self.from, self.at) = (data, raw, extra, type, from, at)
    }
}

/// A migrated database with messages, and a read-only connection to look into it.
package struct QueryFixture {
    /// 2026-03-01T12:00:00Z.
    package static let start = Timestamp(microseconds: 1_772_366_400_000_000)

    /// The database's URL.
    package let url: String
    /// How to connect to it.
    package let settings: PostgresSettings
    /// A connection that may change everything.
    package let admin: PostgresConnection
    /// A connection that can't change anything.
    package let reader: PostgresConnection

    /// A database of its own with these messages.
    package init(_ seeds: [Seed] = [], on cluster: LocalCluster = SharedCluster.cluster) async throws {
        let database = try await TestDatabase(on: cluster)
        (url, settings, admin) = (database.url, database.settings, database.admin)
        try await admin.run { connection throws(PostgresError) in
            try connection.script("SELECT upstream.ensure_partitions('2026-02-20', '2026-03-10')")
        }
        reader = try await PostgresConnection.open(settings)
        try await reader.run { connection throws(PostgresError) in try connection.becomeReadOnly() }
        try await add(seeds)
    }

    /// Runs statements.
    package func script(_ sql: String) async throws {
        try await admin.run { connection throws(PostgresError) in try connection.script(sql) }
    }

    /// The first value of a query.
    package func text(_ sql: String) async throws -> String? {
        try await admin.run { connection throws(PostgresError) in
            try connection.query(sql).first { row throws(PostgresError) in try row.next(String?.self) } ?? nil
        }
    }

    /// Stores messages as a worker would, with keys and fingerprints that PostgreSQL computes by the words of
    /// docs/protocol.md.
    package func add(
        _ seeds: [Seed],
        by connection: PostgresConnection? = nil,
        into table: String = "messages"
    ) async throws {
        for seed in seeds {
            let row: SQL = """
                \(seed.sender) AS sender, \(seed.id) AS id, \(seed.token) AS token, \(seed.category) AS category,
                \(seed.data) AS data, \(seed.raw) AS raw, \(seed.extra) AS extra, \(seed.type) AS type,
                \(seed.from) AS stanza, \(QueryFixture.start + .microseconds(seed.at)) AS at
                """
            func part(_ name: String) -> SQL {
                "\(raw: "coalesce(int8send(octet_length(\(name))) || convert_to(\(name), 'UTF8'), int8send(-1))")"
            }
            let made: SQL = """
                made AS (
                    SELECT *, encode(substring(
                        sha256(convert_to(sender, 'UTF8') || '\\x00'::bytea || convert_to(id, 'UTF8')), 1, 16
                    ), 'hex')::uuid AS key, encode(substring(sha256(
                        \(part("token")) || \(part("category")) || \(part("type")) || \(part("coalesce(raw, data)"))
                    ), 1, 16), 'hex')::uuid AS print,
                    encode(substring(sha256(convert_to(token, 'UTF8')), 1, 16), 'hex')::uuid AS device
                    FROM (SELECT \(row)) AS input
                )
                """
            let isMessage = table == "messages"
            let body: SQL = """
                INSERT INTO upstream.\(raw: table) (
                    message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
                    message_type, stanza_from, received_at\(raw: isMessage ? "" : ", fingerprint, times_seen, last_seen_at")
                ) SELECT key, sender, id, token, device, category, data::json, raw, extra, type, stanza, at
                    \(raw: isMessage ? "" : ", print, 2, at + interval '1 hour'") FROM made
                """
            let sql: SQL =
                isMessage
                ? """
                WITH \(made), ledger AS (INSERT INTO upstream.message_ids SELECT key, print, at FROM made),
                sender AS (INSERT INTO upstream.senders SELECT sender, 'sender' FROM made ON CONFLICT DO NOTHING) \(body)
                """ : "WITH \(made) \(body)"
            _ = try await (connection ?? admin).run { connection throws(PostgresError) in try connection.run(sql) }
        }
    }

    /// The ids that a filter lets through, the oldest first.
    package func ids(_ filter: MessageFilter) async throws -> [String] {
        var pager = MessagePager(filter, .oldestFirst, limit: 1_000)
        return try await pager.next(reader).messages.map(\.message.messageID)
    }

    /// All messages that a filter lets through, the oldest first.
    package func page(_ filter: MessageFilter = MessageFilter()) async throws -> MessagePage {
        var pager = MessagePager(filter, .oldestFirst, limit: 10_000)
        return try await pager.next(reader)
    }
}
