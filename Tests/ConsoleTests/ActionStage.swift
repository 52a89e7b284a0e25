import ConsoleSupport
import Foundation
import IntegrationSupport
import Postgres
import QuerySupport

/// Shorthands for the tests of actions.
extension ConsoleHarness {
    /// Sends a POST with a key of its own, or this one.
    func act(
        _ path: String,
        _ json: String = "{}",
        as caller: Caller = .operator_,
        key: String = UUID().uuidString
    ) async throws -> ConsoleReply {
        try await post("/api/v1/" + path, json, as: caller, headers: ["Idempotency-Key": "\"\(key)\""])
    }

    /// Inserts dead letters of a handler and group.
    func kill(_ count: Int, _ handler: String = "orders", _ group: String = "status 503") async throws {
        try await database.kill(count, handler, group)
    }

    func integer(_ sql: String) async throws -> Int? { try await database.integer(sql) }

    func count(_ table: String) async throws -> Int? { try await integer("SELECT count(*) FROM upstream.\(table)") }

    /// Waits for a query to give true.
    func waitUntil(_ sql: String) async throws { try await database.waitUntil(sql) }

    /// The audit trail as lines, the oldest first.
    func trail() async throws -> [String] {
        let text = try await database.text(
            """
            SELECT string_agg(concat_ws('|', who, via, action, subject, count, reason), E'\\n' ORDER BY id) FROM upstream.audit
            """
        )
        return text?.split(separator: "\n").map(String.init) ?? []
    }

    /// Waits for a job to end and gives it.
    func ended(_ id: String) async throws -> [String: Any] {
        try await waitUntil("SELECT state NOT IN ('planned', 'running') FROM upstream.jobs WHERE job = '\(id)'")
        return try await get("/api/v1/jobs/\(id)").object
    }
}

extension QueryFixture {
    /// Inserts dead letters of a handler and group.
    func kill(_ count: Int, _ handler: String = "orders", _ group: String = "status 503") async throws {
        try await script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('\(handler)') ON CONFLICT DO NOTHING;
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group
            )
            SELECT '\(handler)', gen_random_uuid(), now() - n * interval '1 ms', 20, now(), 1, 'e', '\(group)'
            FROM generate_series(1, \(count)) AS n
            """
        )
    }

    func integer(_ sql: String) async throws -> Int? { try await look("SELECT (\(sql))::text").flatMap { Int($0) } }

    /// The first value of a query, from a session without a transaction: one that is open keeps an old pg_stat_activity.
    private func look(_ sql: String) async throws -> String? {
        try await reader.run { connection throws(PostgresError) in
            try connection.query(sql).first { row throws(PostgresError) in try row.next(String?.self) } ?? nil
        }
    }

    /// Waits for a query to give true.
    func waitUntil(_ sql: String) async throws {
        try await IntegrationSupport.waitUntil(sql, limit: .seconds(120)) {
            try await look("SELECT (\(sql))::text") == "true"
        }
    }
}
