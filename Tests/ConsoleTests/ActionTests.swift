import ConsoleSupport
import Foundation
import QuerySupport
import Testing

@Suite("every action of the console: who may, what it does, and that it is recorded")
struct ActionTests {
    /// Every request that changes something, with a body that would do.
    static let routes: [(path: String, body: String)] = [
        ("handlers/orders/pause", "{}"), ("handlers/orders/resume", "{}"), ("handlers/orders/remove", "{}"),
        ("dead/retry", #"{"all":true}"#), ("dead/discard", #"{"all":true}"#),
        ("deliveries/retry-now", #"{"all":true}"#), ("deliveries/cancel", #"{"all":true}"#),
        ("quarantine/dismiss", #"{"all":true}"#), ("conflicts/\(id)/\(id)/release", "{}"), ("jobs/\(id)/cancel", "{}"),
        ("replays/plan", #"{"name":"r"}"#), ("replays/r/start", "{}"), ("replays/r/pause", "{}"),
        ("replays/r/resume", "{}"), ("replays/r/cancel", "{}"), ("partitions/run", "{}"),
        ("devices/\(id)/forget", "{}"),
    ]
    private static let id = "00000000-0000-4000-8000-000000000001"

    @Test("deliveries are counted, and then given up: they become dead letters; what came later or is in hand stays")
    func cancels() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(
                """
                INSERT INTO upstream.handlers (name) VALUES ('orders');
                INSERT INTO upstream.deliveries (
                    handler, message_key, received_at, next_attempt_at, lease_owner, lease_until
                ) SELECT 'orders', gen_random_uuid(), now() - interval '1 min', now(),
                    CASE n WHEN 1 THEN 'host:1' END, CASE n WHEN 1 THEN now() + interval '1 h' END
                FROM generate_series(1, 3) AS n
                """
            )
            let counted = try await console.act("deliveries/cancel", #"{"handler":"orders"}"#).object
            #expect(counted["planned"] as? Int == 2 && counted["left_with_workers"] as? Int == 1, "\(counted)")
            let about = "2 waiting deliveries; workers have 1 more in hand, which are left alone"
            #expect(counted["about"] as? String == about)
            #expect(try await console.trail().isEmpty)
            try await console.database.script(
                """
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                VALUES ('orders', gen_random_uuid(), clock_timestamp(), now()),
                    ('orders', gen_random_uuid(), now() - interval '1 min', now());
                UPDATE upstream.deliveries SET lease_owner = NULL, lease_until = NULL WHERE lease_owner = 'host:1'
                """
            )
            let time = try #require(counted["as_of"] as? String)
            let body = #"{"handler":"orders","as_of":"\#(time)","reason":"no longer wanted"}"#
            let done = try await console.act("deliveries/cancel", body).object
            #expect(done["done"] as? Int == 2 && done["more"] as? Bool == false, "\(done)")
            #expect(done["as_of"] as? String == time)
            // What arrived since, was queued with an older message, and what the worker gave back.
            #expect(try await console.count("deliveries") == 3)
            for wrong in ["soon", "2100-01-01T00:00:00Z/", "2100-01-01T00:00:00Z/5:3:", "2100-01-01T00:00:00Z/x"] {
                let body = #"{"handler":"orders","as_of":"\#(wrong)","reason":"x"}"#
                #expect(try await console.act("deliveries/cancel", body).status == 400, "\(wrong)")
            }
            let letters = try await console.database.text(
                "SELECT string_agg(DISTINCT error_group || '|' || last_error, ' ') FROM upstream.dead_letters"
            )
            #expect(letters == "cancelled by operator|cancelled by operator: no longer wanted")
            let trail = try await console.trail()
            #expect(
                trail.count == 1
                    && trail[0].hasPrefix("operator|console|deliveries.cancel|deliveries, handler orders, until ")
            )
            #expect(trail.first?.hasSuffix("|2|no longer wanted") == true, "\(trail)")
            let page = try await console.get("/deliveries?handler=orders", as: .operator_).text
            #expect(page.contains(#"data-verb="Give up""#) && page.contains(">Count first</button>"))
            for (path, caller) in [
                ("/deliveries?handler=orders", ConsoleHarness.Caller.viewer), ("/deliveries", .operator_),
            ] {
                #expect(try await !console.get(path, as: caller).text.contains("Give up"), "\(path)")
            }
        }
    }

    @Test("a handler that no worker runs is removed with what it has, which is counted first; one that runs stays")
    func removes() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(3, "legacy")
            try await console.database.script(
                """
                INSERT INTO upstream.subscriptions (handler, category) VALUES ('legacy', '*');
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                VALUES ('legacy', gen_random_uuid(), now(), now());
                UPDATE upstream.handlers SET seen_at = now()
                """
            )
            let path = "handlers/legacy/remove"
            #expect(try await console.act(path).object["type"] as? String == "/problems/handler-runs")
            let claimed = try await console.act(path, #"{"as_of":"2026-03-01T12:00:00Z"}"#)
            #expect(claimed.status == 409, "\(claimed.text)")
            #expect(try await !console.get("/handlers/legacy", as: .operator_).text.contains("legacy/remove"))
            try await console.database.script("UPDATE upstream.handlers SET seen_at = now() - interval '3 min'")
            #expect(try await console.get("/handlers/legacy", as: .operator_).text.contains("legacy/remove"))
            #expect(try await !console.get("/handlers/legacy").text.contains("legacy/remove"))
            let counted = try await console.act(path).object
            #expect(counted["about"] as? String == "1 waiting and 3 dead deliveries, which are deleted", "\(counted)")
            #expect(try await console.trail().isEmpty)
            let time = try #require(counted["as_of"] as? String)
            var (done, parts) = (0, 0)
            while true {
                let part = try await console.act(path, #"{"as_of":"\#(time)","reason":"gone"}"#).object
                done += try #require(part["done"] as? Int, "\(part)")
                parts += 1
                if part["more"] as? Bool != true { break }
            }
            #expect(done == 4 && parts == 4, "\(done) in \(parts)")
            for table in ["handlers", "subscriptions", "deliveries", "dead_letters"] {
                #expect(try await console.count(table) == 0, "\(table)")
            }
            #expect(
                try await console.trail() == [
                    "operator|console|handlers.remove|handler legacy|gone",
                    "operator|console|handlers.remove|handler legacy|1|gone",
                    "operator|console|handlers.remove|handler legacy|3|gone",
                    "operator|console|handlers.remove.finished|handler legacy|gone",
                ]
            )
            #expect(try await console.act(path, #"{"as_of":"\#(time)"}"#).status == 404)
        }
    }

    @Test("only an operator acts, a key is asked for, and unknown members and other content are refused")
    func rights() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(3)
            for (path, body) in Self.routes {
                for caller in [ConsoleHarness.Caller.viewer, .auditor, .revealer] {
                    let reply = try await console.act(path, body, as: caller)
                    #expect(reply.status == 403, "\(path) as \(caller)")
                    #expect(reply.object["type"] as? String == "/problems/forbidden")
                }
                #expect(try await console.act(path, body, as: .nobody).status == 401)
                let keyless = try await console.post("/api/v1/" + path, body)
                #expect(keyless.status == 400)
                #expect(keyless.object["type"] as? String == "/problems/idempotency-key-missing")
                #expect(try await console.act(path, body, key: String(repeating: "k", count: 256)).status == 400)
                for body in [#"{"reason":"x","reason":"y"}"#, #"{"reason":"x","re\u0061son":"y"}"#] {
                    let twice = try await console.act(path, body)
                    #expect(
                        twice.status == 400 && twice.text.contains("'reason' appears twice"),
                        "\(path): \(twice.text)"
                    )
                    #expect(twice.header("Content-Type") == "application/problem+json")
                }
                let unknown = try await console.act(path, #"{"resaon":"x"}"#)
                #expect(
                    unknown.status == 400 && unknown.text.contains("'resaon' is unknown"),
                    "\(path): \(unknown.text)"
                )
                #expect(try await console.act(path, "[1]").status == 400)
                #expect(try await console.act(path, "{").status == 400)
                #expect(
                    try await console.act(path, "{\"reason\":\"\(String(repeating: "x", count: 80_000))\"}").status
                        == 413
                )
            }
            #expect(try await console.count("dead_letters") == 3)
            #expect(try await console.trail().isEmpty)
            #expect(try await console.count("idempotency_keys") == 0)
            #expect(try await console.get("/api/v1/audit", as: .viewer).status == 403)
        }
    }

    @Test("a handler is paused for a while with a reason, and resumed")
    func handlers() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script("INSERT INTO upstream.handlers (name) VALUES ('orders'), ('a b/ü')")
            let reply = try await console.act("handlers/orders/pause", #"{"for":"30m","reason":"moving"}"#)
            #expect(reply.status == 200 && reply.object["paused_until"] is String, "\(reply.text)")
            let state = "SELECT paused_reason || ' ' || (paused_until - paused_at) FROM upstream.handlers WHERE paused"
            #expect(try await console.database.text(state) == "moving 00:30:00")
            #expect(try await console.act("handlers/orders/resume").status == 200)
            #expect(try await console.database.text(state) == nil)
            #expect(try await console.act("handlers/a%20b%2F%C3%BC/pause").status == 200)
            let unknown = try await console.act("handlers/nobody/pause")
            #expect(unknown.status == 404 && unknown.text.contains("nobody"))
            for text in ["0s", "x", "5", "-1m", "99999999999d"] {
                #expect(
                    try await console.act("handlers/orders/pause", "{\"for\":\"\(text)\"}").status == 400,
                    "\(text)"
                )
            }
            // A character of the reader's may have any number of marks, each of which the database counts.
            let long = "e" + String(repeating: "\u{301}", count: 1_000)
            #expect(try await console.act("handlers/orders/pause", "{\"reason\":\"\(long)\"}").status == 400)
            #expect(
                try await console.trail() == [
                    "operator|console|handlers.pause|handler orders|moving",
                    "operator|console|handlers.resume|handler orders", "operator|console|handlers.pause|handler a b/ü",
                ]
            )
        }
    }

    @Test("deliveries that wait are made due at once, those that a worker holds are left alone")
    func retryNow() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(
                """
                INSERT INTO upstream.deliveries (handler, message_key, received_at, attempts, next_attempt_at, lease_until)
                SELECT CASE WHEN n <= 6 THEN 'orders' ELSE 'billing' END, gen_random_uuid(), now(), 3,
                    now() + interval '1 hour', CASE WHEN n = 1 THEN now() + interval '1 minute' WHEN n = 2 THEN now() END
                FROM generate_series(1, 10) AS n
                """
            )
            #expect(try await console.act("deliveries/retry-now").status == 400)
            let reply = try await console.act(
                "deliveries/retry-now",
                #"{"handler":"orders","limit":3,"reason":"up again"}"#
            )
            #expect(reply.object["done"] as? Int == 3 && reply.object["more"] as? Bool == true, "\(reply.text)")
            let rest = try await console.act("deliveries/retry-now", #"{"handler":"orders"}"#)
            #expect(rest.object["done"] as? Int == 2 && rest.object["more"] as? Bool == false, "\(rest.text)")
            let due = "SELECT count(*) FROM upstream.deliveries WHERE next_attempt_at <= now()"
            #expect(try await console.integer(due) == 5)
            #expect(try await console.integer(due + " AND lease_until > now()") == 0)
            let key = try await console.database.text(
                "SELECT message_key::text FROM upstream.deliveries WHERE handler = 'billing' LIMIT 1"
            )
            let one = try await console.act("deliveries/retry-now", "{\"message_key\":\"\(key ?? "")\"}")
            #expect(one.object["done"] as? Int == 1)
            #expect(
                try await console.trail() == [
                    "operator|console|deliveries.retry-now|deliveries, handler orders|3|up again",
                    "operator|console|deliveries.retry-now|deliveries, handler orders|2",
                    "operator|console|deliveries.retry-now|deliveries, message \(key ?? "")|1",
                ]
            )
        }
    }

    @Test("a conflict is released once to the handlers of its category")
    func conflicts() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1")]) { console in
            try await console.database.add([Seed(id: "m-1", data: #"{"a":2}"#)], into: "conflicts")
            let name = "SELECT message_key || '/' || fingerprint FROM upstream.conflicts"
            let path = "conflicts/\(try await console.database.text(name) ?? "")/release"
            let none = try await console.act(path)
            #expect(none.status == 409 && none.object["type"] as? String == "/problems/no-handler", "\(none.text)")
            try await console.database.script(
                """
                INSERT INTO upstream.handlers (name) VALUES ('orders');
                INSERT INTO upstream.subscriptions (handler, category) VALUES ('orders', '*')
                """
            )
            let reply = try await console.act(path, #"{"reason":"the later one is right"}"#)
            #expect(reply.status == 200 && reply.object["outcome"] as? String == "released", "\(reply.text)")
            #expect(reply.object["handlers"] as? [String] == ["orders"])
            let again = try await console.act(path)
            #expect(again.object["outcome"] as? String == "released_before")
            #expect(try await console.count("deliveries") == 1)
            #expect(try await console.trail().count == 1)
            let id = "00000000-0000-4000-8000-000000000001"
            #expect(try await console.act("conflicts/\(id)/\(id)/release").status == 404)
            #expect(try await console.act("conflicts/x/\(id)/release").status == 400)
        }
    }

    @Test("a replay is planned, started, paused, resumed and cancelled; one to a file is not started here")
    func replays() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1"), Seed(id: "m-2"), Seed(id: "m-3", category: "other")]) {
            console in
            try await console.database.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
            let body = """
                {"name":"friday","handlers":["orders"],"scope":"not_handled","reason":"orders was down","rate":5,
                "filter":{"category":["com.example.orders"],"since":"2026-02-28","where":["data.a=1"]}}
                """
            let plan = try await console.act("replays/plan", body)
            #expect(plan.status == 201 && plan.object["planned"] as? Int == 2, "\(plan.text)")
            #expect(plan.header("Location") == "/api/v1/replays/\(plan.object["replay_id"] as? String ?? "")")
            #expect(try await console.act("replays/plan", body).status == 409)
            for step in [
                ("pause", 409), ("start", 200), ("start", 200), ("pause", 200), ("resume", 200), ("cancel", 200),
            ] {
                let reply = try await console.act("replays/friday/\(step.0)", #"{"reason":"r"}"#)
                #expect(reply.status == step.1, "\(step): \(reply.text)")
            }
            #expect(try await console.act("replays/friday/start").status == 409)
            #expect(try await console.act("replays/nothing/start").status == 404)
            #expect(try await console.count("replay_messages") == 0)
            for wrong in [
                #"{"scope":"x"}"#, #"{"rate":0}"#, #"{"name":"-x"}"#, #"{"filter":{"where":["x"]}}"#,
                #"{"filter":{"device":"token"}}"#, #"{"filter":{"since":"never"}}"#, #"{"filter":{"catgory":["x"]}}"#,
                #"{"filter":7}"#, #"{"concurrency":0}"#,
            ] {
                #expect(try await console.act("replays/plan", wrong).status == 400, "\(wrong)")
            }
            #expect(try await console.act("replays/plan", #"{"handlers":["unknown"]}"#).status == 404)
            let empty = try await console.act("replays/plan", #"{"filter":{"since":"2026-03-05"}}"#)
            #expect(empty.status == 200 && empty.object["replay_id"] is NSNull, "\(empty.text)")
            let actions = try await console.trail().map { $0.split(separator: "|")[2] }
            let expected = ["plan", "start", "pause", "resume", "cancel"].map { "replays.\($0)" }
            #expect(actions.map(String.init) == expected)
            try await console.database.script(
                """
                UPDATE upstream.replays SET kind = 'output', handlers = '{}', state = 'paused',
                    options = '{"pace":{},"format":"ndjson"}'
                """
            )
            #expect(try await console.act("replays/friday/start").status == 409)
            #expect(try await console.act("replays/friday/cancel").status == 200)
        }
    }

    @Test("the trail is read in pages, by who may, with every filter")
    func audit() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
            for number in 1...5 {
                let path = number % 2 == 0 ? "resume" : "pause"
                #expect(try await console.act("handlers/orders/\(path)", "{\"reason\":\"<b>\(number)\"}").status == 200)
            }
            var seen: [String] = []
            var cursor = ""
            repeat {
                let page = try await console.get("/api/v1/audit?limit=2\(cursor)", as: .auditor)
                #expect(page.status == 200)
                seen += page.items.compactMap { $0["reason"] as? String }
                cursor = (page.object["next"] as? String).map { "&after=\($0)" } ?? ""
            } while !cursor.isEmpty
            #expect(seen == ["<b>5", "<b>4", "<b>3", "<b>2", "<b>1"])
            let pauses = try await console.get(
                "/api/v1/audit?action=handlers.pause&who=operator&since=1h",
                as: .operator_
            )
            #expect(pauses.items.count == 3)
            #expect(pauses.items.first?["via"] as? String == "console")
            #expect(try await console.get("/api/v1/audit?action=handlers", as: .auditor).items.count == 5)
            #expect(try await console.get("/api/v1/audit?until=1h", as: .auditor).items.isEmpty)
            // An action is one word.
            let page = try await console.get("/audit", as: .auditor).text
            #expect(page.contains(#"<span class="tag tight"><bdi>handlers.pause<"#), "\(page)")
            for wrong in ["limit=0", "limit=501", "after=x", "since=x", "sice=1h", "who=a%00"] {
                #expect(try await console.get("/api/v1/audit?\(wrong)", as: .auditor).status == 400, "\(wrong)")
            }
        }
    }
}
