import ConsoleSupport
import Foundation
import Postgres
import QuerySupport
import Testing
import Vocabulary

@testable import Console

@Suite("the quarantine in the console", .timeLimit(.minutes(10)))
struct QuarantineTests {
    /// Inserts stanzas of a size, seen an hour ago.
    private static func fill(_ console: ConsoleHarness, _ count: Int, bytes: Int = 10) async throws {
        try await console.database.script(
            """
            INSERT INTO upstream.quarantine (sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
            SELECT '1', 'duplicate_key', 'd' || n, convert_to(lpad(n::text, \(bytes), 'x'), 'UTF8'), sha256(int4send(n)), 1,
                now() - interval '1 h', now() - interval '1 h'
            FROM generate_series(1, \(count)) AS n
            """
        )
    }

    private func lines(_ text: String) -> [String] { text.split(separator: "\n").map(String.init) }

    private func ids(_ console: ConsoleHarness, _ query: String = "") async throws -> [Int] {
        try await console.get("/api/v1/quarantine" + query).items.compactMap { $0["id"] as? Int }.sorted()
    }

    @Test("an export of many parts arrives whole, and each stanza once; `after` goes on behind a line")
    func export() async throws {
        try await ConsoleHarness.run { console in
            // More than one part by its bytes.
            try await Self.fill(console, 60, bytes: 20_000)
            let all = lines(try await console.get("/api/v1/quarantine/export").text)
            let ids = try all.map { line in
                try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])["id"] as? Int
            }
            #expect(ids == Array(1...60))
            let rest = lines(try await console.get("/api/v1/quarantine/export?after=10").text)
            #expect(rest == Array(all[10...]))
            #expect(try await console.get("/api/v1/quarantine/export?after=x").status == 400)
        }
    }

    @Test("an export that breaks off says so in its last line, and the connection is aborted")
    func failure() async throws {
        try await ConsoleHarness.run { console in
            try await Self.fill(console, 1_100)
            try await console.database.script(
                """
                -- Said to be expensive, so that it is computed for the rows of a part alone.
                CREATE FUNCTION upstream.broken(id bigint, text text) RETURNS text LANGUAGE plpgsql STABLE COST 100000
                AS $$ BEGIN RETURN CASE id WHEN 1050 THEN (1 / (id - 1050))::text ELSE text END; END $$;
                ALTER TABLE upstream.quarantine RENAME TO whole;
                CREATE VIEW upstream.quarantine AS SELECT
                    id, sender_id, message_id, reason, upstream.broken(id, detail) AS detail, stanza, digest, times_seen,
                    received_at, last_seen_at, dismissed_at
                FROM upstream.whole
                """
            )
            // Byte by byte, since a client library may forget what it has not yet handed on when the connection breaks.
            let head = "GET /api/v1/quarantine/export HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
            let token = try #require(ConsoleHarness.Caller.viewer.token)
            let bytes = try #require(try RawConnection.exchange(console.port, head + token + "\r\n\r\n"))
            let answer = bytes.replacing("\r\n", with: "\n")
            #expect(answer.hasPrefix("HTTP/1.1 200"))
            #expect(answer.matches(of: /"reason":"duplicate_key"/).count == 1_000)
            let last = try #require(answer.components(separatedBy: "\n{").last)
            #expect(last.hasPrefix(#""error":{"type":"/problems/"#), "\(last)")
            #expect(!last.contains("\n0\n"), "the body has no end")
        }
    }

    @Test("a stanza that is just being counted is waited for and dismissed, not said to be unknown")
    func locked() async throws {
        try await ConsoleHarness.run { console in
            try await Self.fill(console, 1)
            let other = try await PostgresConnection.open(console.database.settings)
            try await other.run { connection throws(PostgresError) in
                try connection.script("BEGIN; UPDATE upstream.quarantine SET times_seen = 2")
            }
            let reply = Task { try await console.act("quarantine/1/dismiss") }
            try await console.waitUntil(
                """
                SELECT EXISTS (
                    SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                )
                """
            )
            try await other.run { connection throws(PostgresError) in try connection.script("COMMIT") }
            await other.close()
            #expect(try await reply.value.status == 200)
            #expect(try await ids(console).isEmpty)
        }
    }

    @Test("what came after the page was shown is not dismissed with what the page shows")
    func frozen() async throws {
        try await ConsoleHarness.run { console in
            try await Self.fill(console, 3)
            let page = try await console.get("/quarantine?reason=duplicate_key", as: .operator_).text
            let moment = try #require(page.firstMatch(of: /name="as_of" value="([^"]*)"/)?.1)
            try await console.database.script(
                """
                UPDATE upstream.quarantine SET last_seen_at = clock_timestamp() WHERE id = 2;
                INSERT INTO upstream.quarantine (
                    sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
                ) VALUES ('1', 'duplicate_key', '', 'x', 'x', 1, clock_timestamp(), clock_timestamp())
                """
            )
            let stanza = try await console.get("/quarantine/1", as: .operator_).text
            #expect(stanza.contains("<code>upstream-worker quarantine retry 1</code>"))
            let body = #"{"filter":{"reason":"duplicate_key"},"as_of":"\#(moment)"}"#
            let answer = try await console.act("quarantine/dismiss", body).object
            #expect(answer["done"] as? Int == 2 && answer["as_of"] as? String == String(moment), "\(answer)")
            #expect(try await ids(console) == [2, 4])
            #expect(try await console.act("quarantine/dismiss", #"{"all":true,"as_of":"soon"}"#).status == 400)
        }
    }

    @Test("what was counted or shown an hour ago is what is acted on: ages count back from then")
    func ages() async throws {
        try await ConsoleHarness.run { console in
            try await Self.fill(console, 2)
            try await console.database.script(
                """
                UPDATE upstream.quarantine SET received_at = now() - interval '1 min' * CASE id WHEN 1 THEN 150 ELSE 90 END,
                    last_seen_at = now() - interval '90 min';
                INSERT INTO upstream.handlers (name) VALUES ('orders');
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                SELECT 'orders', gen_random_uuid(), now() - interval '1 min' * age, now()
                FROM unnest(ARRAY[150, 90]) AS age
                """
            )
            let hourAgo = try #require(
                try await console.database.text(
                    "SELECT to_char((now() - interval '1 h') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
                )
            )
            let dismissed = try await console.act(
                "quarantine/dismiss",
                #"{"filter":{"until":"1h"},"as_of":"\#(hourAgo)"}"#
            )
            #expect(dismissed.object["done"] as? Int == 1, "\(dismissed.text)")
            #expect(try await ids(console) == [2])
            let cancelled = try await console.act("deliveries/cancel", #"{"until":"1h","as_of":"\#(hourAgo)"}"#)
            #expect(cancelled.object["done"] as? Int == 1, "\(cancelled.text)")
            #expect(try await console.count("deliveries") == 1)
        }
    }

    @Test("what a standby shows is complete until the time it is behind; if it does not tell, nobody knows")
    func behind() {
        let now = Timestamp(microseconds: 1_000_000_000)
        func seen(_ lags: [ReadLag]) -> Timestamp? {
            let note = LagNote()
            for lag in lags { note.add(lag) }
            return LagNote.$current.withValue(note) { LagNote.seen(by: now) }
        }
        let late = ReadLag(isStandby: true, seconds: 9)
        #expect(seen([]) == now && seen([ReadLag(isStandby: false, seconds: 0)]) == now)
        #expect(seen([late]) == now - .seconds(9))
        #expect(seen([late, ReadLag(isStandby: true, seconds: nil)]) == nil)
    }

    @Test("actions count ages back by the database's clock, as the lists do")
    func clock() async throws {
        // Its clock is two hours behind ours, in every session of the console.
        let late = """
            CREATE SCHEMA late;
            CREATE FUNCTION late.clock_timestamp() RETURNS timestamptz LANGUAGE sql
            AS $$ SELECT pg_catalog.clock_timestamp() - interval '2 h' $$;
            GRANT USAGE ON SCHEMA late TO PUBLIC;
            DO $$ BEGIN
                EXECUTE format('ALTER DATABASE %I SET search_path = late, pg_catalog', current_database());
            END $$
            """
        func setBack(_ database: QueryFixture) async throws { try await database.script(late) }
        try await ConsoleHarness.run(prepare: setBack) { console in
            try await Self.fill(console, 1)
            try await console.kill(1)
            // 2.5 h old by ours.
            try await console.database.script(
                """
                UPDATE upstream.quarantine SET received_at = now() - interval '150 min', last_seen_at = now() - interval '150 min';
                UPDATE upstream.dead_letters SET died_at = now() - interval '150 min';
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                VALUES ('orders', gen_random_uuid(), now() - interval '150 min', now() + interval '1 h')
                """
            )
            let since = #""since":"1h""#
            #expect(try await ids(console, "?since=1h") == [1])
            let set = try await console.act("dead/retry", "{\"filter\":{\(since)}}").object
            #expect(set["planned"] as? Int == 1, "\(set)")
            #expect(try await console.act("deliveries/retry-now", "{\(since)}").object["done"] as? Int == 1)
            let dismissed = try await console.act("quarantine/dismiss", "{\"filter\":{\(since)}}").object
            #expect(dismissed["done"] as? Int == 1, "\(dismissed)")
        }
    }
}
