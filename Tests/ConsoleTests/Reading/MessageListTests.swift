import Console
import ConsoleSupport
import Foundation
import QuerySupport
import Testing

@Suite("GET messages", .timeLimit(.minutes(10)))
struct MessageListTests {
    private static let seeds = (1...7).map { number in
        Seed(
            id: "m\(number)",
            category: number.isMultiple(of: 2) ? "com.example.even" : "com.example.odd",
            data: "{\"n\":\(number)}",
            at: Int64(number)
        )
    }

    private func ids(_ reply: ConsoleReply) -> [String] { reply.items.compactMap { $0["message_id"] as? String } }

    @Test("pages follow each other in both orders, and none is lost or given twice")
    func pages() async throws {
        try await ConsoleHarness.run(Self.seeds) { console in
            for (order, expected) in [
                ("newest", (1...7).reversed().map { "m\($0)" }), ("oldest", (1...7).map { "m\($0)" }),
            ] {
                var found: [String] = []
                var path: String? = "/api/v1/messages?limit=3&order=\(order)"
                while let next = path {
                    let reply = try await console.get(next)
                    #expect(reply.status == 200 && reply.header("Content-Type") == "application/json")
                    found += ids(reply)
                    let after = (reply.object["next"] as? String)?
                        .addingPercentEncoding(withAllowedCharacters: .alphanumerics)
                    path = after.map { "/api/v1/messages?limit=3&order=\(order)&after=\($0)" }
                }
                #expect(found == expected)
            }
        }
    }

    @Test("the page says of its messages what waits and what is dead, and is silent where all is done")
    func pending() async throws {
        try await ConsoleHarness.run(Self.seeds) { console in
            #expect(try await !console.get("/messages").text.contains("Pending"))
            try await console.database.script(
                """
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                SELECT handler, message_key, received_at, now()
                FROM upstream.messages, (VALUES ('billing'), ('orders')) AS h (handler) WHERE message_id = 'm1';
                INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
                SELECT 1, 1, 'orders', 'host:1', now() + interval '1 hour', ARRAY[message_key], ARRAY[received_at]
                FROM upstream.messages WHERE message_id = 'm2';
                INSERT INTO upstream.dead_letters (
                    handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group, last_error
                ) SELECT 'shipping', message_key, received_at, 20, now(), 0, 'reject', 'no such item'
                FROM upstream.messages WHERE message_id IN ('m1', 'm3')
                """
            )
            let page = try await console.get("/messages").text
            func state(_ id: String) throws -> String {
                let row = try #require(page.split(separator: "<tr>").first { $0.contains(">\(id)<") }, "\(page)")
                let cell = try #require(row.firstMatch(of: /data-label="Pending">(.*?)<\/td>/))
                return String(cell.1).replacing(/<[^>]*>/, with: "").trimmingCharacters(in: .whitespaces)
            }
            #expect(try ["m1", "m2", "m3", "m4"].map(state) == ["waiting 2 dead 1", "waiting 1", "dead 1", "–"])
        }
    }

    @Test("every filter of `messages list` narrows, and clauses are those of the command")
    func filters() async throws {
        try await ConsoleHarness.run(Self.seeds) { console in
            func found(_ query: String) async throws -> [String] {
                let reply = try await console.get("/api/v1/messages?order=oldest&" + query)
                #expect(reply.status == 200, "\(query): \(reply.text)")
                return ids(reply)
            }
            #expect(try await found("category=com.example.even") == ["m2", "m4", "m6"])
            #expect(try await found("category=com.example.even&category=com.example.odd").count == 7)
            #expect(try await found("message_id=m3") == ["m3"])
            #expect(try await found("sender=other").isEmpty)
            #expect(try await found("where=data.n%3E5") == ["m6", "m7"])
            #expect(try await found("where=data.n%3E3&where=data.n%3C6") == ["m4", "m5"])
            #expect(try await found("since=2026-03-01T12:00:00.000006Z") == ["m6", "m7"])
            #expect(try await found("until=2026-03-01T12:00:00.000003Z") == ["m1", "m2"])
            #expect(try await found("until=2026-03-01T12:00:00.000003%2B00:00") == ["m1", "m2"])
            let device = try await console.database.text("SELECT device_key::text FROM upstream.messages LIMIT 1")
            #expect(try await found("device=\(device ?? "")").count == 7)
        }
    }

    @Test(
        "a wrong parameter is a problem that says what is right, and never selects everything",
        arguments: [
            ("categry=x", "did you mean 'category'?"), ("limit=0", "from 1 to 1000"), ("limit=-1", "from 1 to 1000"),
            ("limit=99999999999999999999999", "from 1 to 1000"), ("limit=1e3", "from 1 to 1000"),
            ("limit=5&limit=5", "2 times"), ("sender=a&sender=b", "2 times"), ("after=zzz", "'next'"),
            ("after=2026-03-01T12:00:00Z", "'next'"), ("order=newst", "did you mean 'newest'?"),
            ("device=token", "device_key"), ("since=soon", "'since'"), ("since=1h&until=2h", "before 'until'"),
            ("where=data.n%3D%3E5", "not a comparison"), ("where=1%3D1", "begins with 'data'"),
            ("category=%00", "U+0000"), ("category=%ff", "UTF-8"), ("reveal=all", "token"),
            ("%ff=1", "UTF-8"), ("=1", "unknown parameter"),
        ]
    )
    func refused(_ query: String, _ hint: String) async throws {
        try await ConsoleHarness.run { console in
            let reply = try await console.get("/api/v1/messages?\(query)")
            #expect(reply.status == 400, "\(query)")
            #expect(reply.header("Content-Type") == "application/problem+json")
            let detail = reply.object["detail"] as? String ?? ""
            #expect(detail.contains(hint), "\(query): \(detail)")
        }
    }

    @Test("what looks like SQL is a value; many categories are taken up to a bound")
    func attacks() async throws {
        try await ConsoleHarness.run(Self.seeds) { console in
            let sql = "x'%20OR%20'1'%3D'1"
            let name = "%22n'%20OR%20true--%22"
            for query in [
                "category=\(sql)", "message_id=\(sql)", "where=data.n%3D\(sql)", "where=data.\(name)%20exists",
            ] {
                let reply = try await console.get("/api/v1/messages?\(query)")
                #expect(reply.status == 200 && reply.items.isEmpty, "\(query)")
            }
            for (count, status) in [(100, 200), (101, 400), (1_000, 400)] {
                let query = (1...count).map { "category=c\($0)" }.joined(separator: "&")
                let reply = try await console.get("/api/v1/messages?\(query)")
                #expect(reply.status == status, "\(count) categories")
            }
            // A regular expression that no database takes is the client's mistake.
            let reply = try await console.get("/api/v1/messages?where=data.n~(")
            #expect(reply.status == 400)
        }
    }

    @Test("Prefer: count=estimated gives the planner's estimate")
    func estimate() async throws {
        try await ConsoleHarness.run(Self.seeds) { console in
            let plain = try await console.get("/api/v1/messages?limit=1")
            #expect(plain.object["estimate"] == nil && plain.header("Preference-Applied") == nil)
            let counted = try await console.get("/api/v1/messages?limit=1", headers: ["Prefer": "count=estimated"])
            #expect(counted.object["estimate"] is NSNumber)
            #expect(counted.header("Preference-Applied") == "count=estimated")
        }
    }

    @Test("tokens are shown to those with the right alone, and that is recorded")
    func reveal() async throws {
        try await ConsoleHarness.run(Self.seeds) { console in
            #expect(try await console.get("/api/v1/messages").text.contains("token-SECRET") == false)
            #expect(try await console.get("/api/v1/messages?reveal=token", as: .operator_).status == 403)
            let reply = try await console.get("/api/v1/messages?reveal=token&limit=2", as: .revealer)
            #expect(reply.items.allSatisfy { $0["registration_token"] as? String == "token-SECRET-a" })
            let entry = "SELECT who || ' ' || action || ' ' || count FROM upstream.audit"
            #expect(try await console.database.text(entry) == "revealer tokens.reveal 2")
            #expect(try await console.get("/api/v1/messages", as: .nobody).status == 401)
        }
    }

    @Test("a list with tokens records its filter, without what clauses compare with, and every key that it showed")
    func revealed() async throws {
        let seeds = (0..<60).map { Seed(id: "n\($0)", data: #"{"a":"PAYLOAD"}"#, at: Int64($0)) }
        try await ConsoleHarness.run(seeds) { console in
            let path = "/api/v1/messages?reveal=token&limit=55&category=com.example.orders&where=data.a%3DPAYLOAD"
            let shown = try await console.get(path, as: .revealer).items.compactMap { $0["message_key"] as? String }
            let trail = "SELECT string_agg(subject, '' ORDER BY id) FROM upstream.audit WHERE action = 'tokens.reveal'"
            let text = try #require(try await console.database.text(trail))
            #expect(shown.count == 55 && shown.allSatisfy(text.contains))
            #expect(
                text.hasPrefix("messages, category com.example.orders, where data.a=…: ") && !text.contains("PAYLOAD")
            )
            let counts = "SELECT string_agg(coalesce(count::text, '-'), ' ' ORDER BY id) FROM upstream.audit"
            #expect(try await console.database.text(counts) == "55 - -")
        }
    }

    @Test("with hidden payloads neither an answer nor a filter tells what devices sent")
    func hidden() async throws {
        try await ConsoleHarness.run(Self.seeds) { settings in
            settings.showsPayloads = false
        } _: { console in
            let reply = try await console.get("/api/v1/messages?limit=1")
            #expect(reply.items.first?["payload"] as? String == "hidden" && !reply.text.contains("\"n\":"))
            let probe = try await console.get("/api/v1/messages?where=data.n%3D7")
            #expect(probe.status == 403)
            let key = reply.items.first?["message_key"] as? String ?? ""
            #expect(try await console.get("/api/v1/messages/\(key)").text.contains("\"n\":") == false)
            #expect(try await console.get("/api/v1/messages/export").text.contains("\"n\":") == false)
        }
    }

    @Test("a page ends by its bytes as they are read, however well they compress")
    func bytes() async throws {
        let big = "\"" + String(repeating: "a", count: 250_000) + "\""
        let seeds = (1...40).map { Seed(id: "big\($0)", data: big, at: Int64($0)) }
        try await ConsoleHarness.run(seeds) { console in
            let reply = try await console.get("/api/v1/messages?limit=1000")
            #expect((8...9).contains(reply.items.count) && reply.object["next"] is String)
        }
    }

    @Test("the page has a column for the sender only where there are several")
    func senders() async throws {
        try await ConsoleHarness.run([Seed(id: "m1")]) { console in
            #expect(try await !console.get("/messages").text.contains("data-field=\"sender_id\""))
            try await console.database.add([Seed(id: "m2", sender: "777", at: 1)])
            #expect(try await console.get("/messages").text.contains("data-field=\"sender_id\""))
        }
    }
}
