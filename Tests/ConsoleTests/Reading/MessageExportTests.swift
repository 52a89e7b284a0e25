import ConsoleSupport
import Foundation
import IntegrationSupport
import QuerySupport
import Querying
import Testing

@Suite("GET messages/export", .timeLimit(.minutes(10)))
struct MessageExportTests {
    /// Some thousand small messages, put into the table by the database itself.
    private static func fill(_ console: ConsoleHarness, _ count: Int) async throws {
        try await console.database.script(
            """
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, received_at
            )
            SELECT md5(n::text)::uuid, '1', 'm' || n, 'token-SECRET', md5('d')::uuid, 'c', '{"n":1}',
                timestamptz '2026-03-01 12:00Z' + n * interval '1 ms'
            FROM generate_series(1, \(count)) AS n
            """
        )
    }

    private func lines(_ text: String) -> [String] { text.split(separator: "\n").map(String.init) }

    @Test("lines are those of `messages export`, oldest first, and `after` goes on behind a line")
    func export() async throws {
        try await ConsoleHarness.run(Awkward.seeds) { console in
            let page = try await console.database.page()
            var expected = MessageLines(.ndjson, tokens: false)
            for row in 0..<page.count { expected.append(page, row) }
            let reply = try await console.get("/api/v1/messages/export")
            #expect(reply.header("Content-Type") == "application/x-ndjson")
            #expect(reply.body == expected.take())
            let all = reply.text.split(separator: "\n", omittingEmptySubsequences: true).map(String.init)
            let fifth = try #require(
                try JSONSerialization.jsonObject(with: Data(all[4].utf8)) as? [String: Any]
            )
            let place = "\(fifth["received_at"] ?? "")/\(fifth["message_key"] ?? "")"
            let escaped = place.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
            let rest = try await console.get("/api/v1/messages/export?after=\(escaped)")
            #expect(rest.text.split(separator: "\n").map(String.init) == Array(all[5...]))
            #expect(try await console.get("/api/v1/messages/export?after=x").status == 400)
        }
    }

    @Test("many pages arrive whole, and once each")
    func pages() async throws {
        try await ConsoleHarness.run { console in
            try await Self.fill(console, 9_001)
            let found = lines(try await console.get("/api/v1/messages/export").text)
            #expect(found.count == 9_001 && Set(found).count == 9_001)
        }
    }

    @Test("a failure midway is the last line, and the connection is aborted")
    func failure() async throws {
        try await ConsoleHarness.run { console in
            try await Self.fill(console, 2_500)
            try await console.database.script(
                """
                -- Said to be expensive, so that it is computed for the rows of a page alone.
                CREATE FUNCTION upstream.broken(id text, data json) RETURNS json LANGUAGE plpgsql STABLE COST 100000
                AS $$ BEGIN RETURN CASE id WHEN 'm2300' THEN id::json ELSE data END; END $$;
                ALTER TABLE upstream.messages RENAME TO whole;
                CREATE VIEW upstream.messages AS SELECT
                    message_key, sender_id, message_id, registration_token, device_key, category,
                    upstream.broken(message_id, data) AS data, data_raw, extra,
                    message_type, stanza_from, received_at
                FROM upstream.whole
                """
            )
            // Byte by byte, since a client library may forget what it has not yet handed on when the connection breaks.
            let head = "GET /api/v1/messages/export HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
            let token = try #require(ConsoleHarness.Caller.viewer.token)
            let port = console.port
            let bytes = try #require(try RawConnection.exchange(port, head + token + "\r\n\r\n"))
            let answer = bytes.replacing("\r\n", with: "\n")
            #expect(answer.hasPrefix("HTTP/1.1 200"))
            #expect(answer.matches(of: /"message_id":"m[0-9]+"/).count == 2_000)
            let last = try #require(answer.components(separatedBy: "\n{").last)
            #expect(last.hasPrefix(#""error":{"type":"/problems/"#), "\(last)")
            #expect(!last.contains("\n0\n"), "the body has no end")
        }
    }

    @Test(
        "the statement of a client that has gone is cancelled",
        arguments: [
            "/api/v1/messages", "/messages", "/api/v1/messages/export", "/api/v1/messages/stream?where=data.a%3D1",
        ]
    )
    func gone(_ path: String) async throws {
        try await ConsoleHarness.run([Seed(id: "m1")]) { console in
            try await console.database.script(
                """
                ALTER TABLE upstream.messages RENAME TO whole;
                CREATE VIEW upstream.messages AS SELECT
                    message_key, sender_id, message_id, registration_token, device_key, category,
                    CASE WHEN pg_sleep(25) IS NULL THEN data ELSE data END AS data, data_raw, extra,
                    message_type, stanza_from, received_at
                FROM upstream.whole
                """
            )
            func active() async throws -> String? {
                try await console.database.text(
                    """
                    SELECT count(*)::text FROM pg_stat_activity
                    WHERE datname = current_database() AND state = 'active' AND wait_event = 'PgSleep'
                    """
                )
            }
            let request = Task { try await console.get(path) }
            try await waitUntil { try await active() == "1" }
            request.cancel()
            try await waitUntil(limit: .seconds(20)) { try await active() == "0" }
        }
    }
}
