import ConsoleSupport
import QuerySupport
import Testing

@testable import Console

@Suite("replays that are planned by HTTP")
struct ReplayPlanTests {
    private static func hide(_ settings: inout ConsoleSettings) { settings.showsPayloads = false }

    @Test("the page of a message that is done leads to a form that sends it again as it is filled in")
    func again() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1")]) { console in
            func replay() async throws -> String {
                let page = try await console.get("/messages/m-1", as: .operator_).text
                let link = try #require(page.firstMatch(of: /href="([^"]*)">Replay this/), "\(page)")
                return String(link.1).replacing("&amp;", with: "&")
            }
            let form = try await console.get(try await replay(), as: .operator_).text
            let key = try #require(try await console.database.text("SELECT message_key::text FROM upstream.messages"))
            #expect(form.contains(#"value="\#(key)""#), "\(form)")
            #expect(form.contains(#"value="all" selected"#) && form.contains(#"value="yes" selected"#), "\(form)")
            #expect(try await !console.get("/replays/new", as: .operator_).text.contains(" selected"))
            // What waits is not to be sent to those who have it.
            try await console.kill(1)
            try await console.database.script(
                "UPDATE upstream.dead_letters SET (message_key, received_at) = (SELECT message_key, received_at FROM upstream.messages)"
            )
            #expect(try await replay() == "/replays/new?message_key=\(key)")
        }
    }

    @Test("a console that hides payloads plans no replay by what they hold")
    func hiddenPayloads() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1")], configure: Self.hide) { console in
            try await console.database.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
            let reply = try await console.act(
                "replays/plan",
                #"{"name":"guess","handlers":["orders"],"filter":{"where":["data.a=1"]}}"#
            )
            #expect(reply.status == 403, "\(reply.text)")
            #expect(reply.object["type"] as? String == "/problems/payloads-hidden")
            #expect(try await console.count("replays") == 0)
            let plain = try await console.act("replays/plan", #"{"handlers":["orders"],"filter":{}}"#)
            #expect(plain.status == 201, "\(plain.text)")
        }
    }

    @Test("ages of a plan's filter count back from the database's time, whatever the console's clock shows")
    func databaseTime() async throws {
        let earlier: (QueryFixture) async throws -> Void = { database in
            try await database.script(
                """
                CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
                    RETURN timestamptz '2026-03-01T13:00:00Z';
                DO $$ BEGIN
                    EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
                END $$;
                INSERT INTO upstream.handlers (name) VALUES ('orders')
                """
            )
        }
        // An hour before.
        try await ConsoleHarness.run([Seed(id: "m-1")], prepare: earlier) { console in
            let reply = try await console.act("replays/plan", #"{"handlers":["orders"],"filter":{"since":"2h"}}"#)
            #expect(reply.status == 201 && reply.object["selected"] as? Int == 1, "\(reply.text)")
            let none = try await console.act("replays/plan", #"{"handlers":["orders"],"filter":{"since":"30m"}}"#)
            #expect(none.status == 200 && none.object["selected"] as? Int == 0, "\(none.text)")
        }
    }

    @Test("a plan tells nothing of a token that a payload holds to those who may not see it")
    func clauseOnToken() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1", data: #"{"device_registration_id":"FAKE-secret"}"#)]) { console in
            try await console.database.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
            let body = #"{"handlers":["orders"],"filter":{"where":["data.device_registration_id~^FAKE"]}}"#
            let reply = try await console.act("replays/plan", body)
            #expect(reply.status == 403 && reply.text.contains("'reveal'"), "\(reply.text)")
            #expect(try await console.count("replays") == 0)
        }
    }

    @Test("the lists of a plan are bounded one by one and together, as those of a query are")
    func lists() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1")]) { console in
            try await console.database.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
            func texts(_ count: Int, _ text: String = "data.a=1") -> String {
                "[" + Array(repeating: "\"\(text)\"", count: count).joined(separator: ",") + "]"
            }
            func plan(_ filter: String, handlers: String = #"["orders"]"#) async throws -> ConsoleReply {
                try await console.act("replays/plan", #"{"handlers":\#(handlers),"filter":\#(filter)}"#)
            }
            for reply in [
                try await plan(#"{"where":\#(texts(101))}"#), try await plan(#"{"category":\#(texts(101, "a"))}"#),
                try await plan("{}", handlers: texts(101, "orders")),
                try await plan(#"{"category":\#(texts(51, "a")),"where":\#(texts(51))}"#),
                try await plan(#"{"where":["data.a=\#(String(repeating: "x", count: 4_096))"]}"#),
            ] {
                #expect(reply.status == 400, "\(reply.text)")
                #expect(reply.text.contains("at most 100") || reply.text.contains("4096 bytes"), "\(reply.text)")
            }
            #expect(try await console.count("replays") == 0)
            let most = try await plan(#"{"where":\#(texts(100))}"#)
            #expect(most.status == 201, "\(most.text)")
        }
    }

    @Test("where 100 plans wait that nobody started, none is added until one of them is cancelled")
    func mostPlanned() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1")]) { console in
            try await console.database.script(
                """
                INSERT INTO upstream.handlers (name) VALUES ('orders');
                INSERT INTO upstream.replays (
                    name, kind, target, occupies, handlers, selection, options, created_by, planned
                )
                SELECT 'r-' || n, 'handlers', 'handlers orders', '{orders}', '{orders}', '{}', '{"pace":{}}', 'x', 1
                FROM generate_series(1, 100) AS n
                """
            )
            let body = #"{"name":"one-more","handlers":["orders"]}"#
            let reply = try await console.act("replays/plan", body)
            #expect(reply.status == 429 && reply.text.contains("cancel one of them"), "\(reply.text)")
            #expect(reply.header("Retry-After") != nil)
            #expect(try await console.act("replays/r-1/cancel").status == 200)
            let again = try await console.act("replays/plan", body)
            #expect(again.status == 201, "\(again.text)")
        }
    }

    @Test("plans that take long keep no other action waiting")
    func longPlans() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1")]) { console in
            try await console.database.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
            try await console.database.script("BEGIN; LOCK TABLE upstream.messages IN ACCESS EXCLUSIVE MODE")
            async let first = console.act("replays/plan", #"{"name":"a","handlers":["orders"]}"#)
            async let second = console.act("replays/plan", #"{"name":"b","handlers":["orders"]}"#)
            try await console.waitUntil(
                """
                SELECT EXISTS (SELECT FROM pg_stat_activity
                    WHERE wait_event_type = 'Lock' AND query LIKE '%replay_selection%' AND pid <> pg_backend_pid())
                """
            )
            let pause = try await console.act("handlers/orders/pause")
            #expect(pause.status == 200, "\(pause.text)")
            try await console.database.script("COMMIT")
            let statuses = try await [first.status, second.status]
            #expect(statuses == [201, 201])
        }
    }
}
