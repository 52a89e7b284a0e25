import ConsoleSupport
import QuerySupport
import Testing

@Suite("searches that take long leave room for everybody else")
struct SlowSearchTests {
    @Test("while one reader's 40 searches run, they and others see the overview, and /readyz is not about them")
    func overview() async throws {
        try await ConsoleHarness.run([Seed(id: "m1")]) { console in
            try await console.database.script(
                """
                -- Called where a statement looks at the data, and nowhere else.
                CREATE FUNCTION upstream.slow(data json) RETURNS json LANGUAGE plpgsql STABLE
                AS $$ BEGIN PERFORM pg_sleep(60); RETURN data; END $$;
                ALTER TABLE upstream.messages RENAME TO whole;
                CREATE VIEW upstream.messages AS SELECT
                    message_key, sender_id, message_id, registration_token, device_key, category,
                    upstream.slow(data) AS data, data_raw, extra,
                    message_type, stanza_from, received_at
                FROM upstream.whole
                """
            )
            let active = """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND state = 'active' AND wait_event = 'PgSleep'
                """
            let searches = (0..<40).map { number in
                Task { try? await console.get("/api/v1/messages?where=data.a%3D\(number)") }
            }
            try await console.waitUntil("SELECT (\(active)) >= 2")
            for caller in [ConsoleHarness.Caller.viewer, .operator_] {
                for path in ["/api/v1/overview", "/api/v1/handlers", "/"] {
                    let reply = try await console.get(path, as: caller)
                    #expect(reply.status == 200, "\(path): \(reply.text)")
                }
            }
            let ready = try await console.get("/readyz", as: .nobody)
            #expect(ready.status == 200, "\(ready.text)")
            // Before the searches had ended, which are given up after 30 s; and half of the sessions are what one reader gets.
            #expect(try await console.database.integer(active) == 2)
            for search in searches { search.cancel() }
            for search in searches { _ = await search.value }
        }
    }
}
