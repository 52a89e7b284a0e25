import ConsoleSupport
import QuerySupport
import Testing

@Suite("Idempotency-Key: a request that is sent again is answered again, and not done again")
struct IdempotencyTests {
    private static let handlers = "INSERT INTO upstream.handlers (name) VALUES ('orders'), ('billing')"

    @Test("the same request with the same key is answered as before; another one is refused; a key is one's own")
    func replays() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(Self.handlers)
            let first = try await console.act("handlers/orders/pause", #"{"for":"1h"}"#, key: "k")
            let second = try await console.act("handlers/orders/pause", #"{"for":"1h"}"#, key: "k")
            #expect(first.status == 200 && first.body == second.body)
            #expect(first.header("Idempotency-Replayed") == nil && second.header("Idempotency-Replayed") == "true")
            let bare = try await console.post(
                "/api/v1/handlers/orders/pause",
                #"{"for":"1h"}"#,
                headers: ["Idempotency-Key": "k"]
            )
            #expect(bare.body == first.body)
            for (path, body) in [
                ("handlers/orders/pause", #"{"for":"2h"}"#), ("handlers/billing/pause", #"{"for":"1h"}"#),
                ("handlers/orders/resume", #"{"for":"1h"}"#),
            ] {
                let reply = try await console.act(path, body, key: "k")
                let wanted = path.hasSuffix("resume") ? 400 : 422
                #expect(reply.status == wanted, "\(path): \(reply.text)")
            }
            #expect(try await console.trail().count == 1)
            #expect(try await console.act("dead/retry", #"{"all":true}"#, as: .auditor, key: "k").status == 403)
            // After 24 hours it is another one's.
            try await console.database.script(
                "UPDATE upstream.idempotency_keys SET created_at = created_at - interval '1 day'"
            )
            #expect(try await console.act("handlers/orders/resume", key: "k").status == 200)
            #expect(try await console.count("idempotency_keys") == 1)
        }
    }

    @Test("while the first is under way the second is told to wait")
    func underWay() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(Self.handlers)
            try await console.database.script("BEGIN; SELECT FROM upstream.handlers FOR UPDATE")
            async let first = console.act("handlers/orders/pause", key: "k")
            try await console.waitUntil(
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%paused%')"
            )
            let second = try await console.act("handlers/orders/pause", key: "k")
            #expect(second.status == 409 && second.header("Retry-After") == "1", "\(second.text)")
            try await console.database.script("COMMIT")
            let answer = try await first
            #expect(answer.status == 200)
            #expect(try await console.act("handlers/orders/pause", key: "k").body == answer.body)
            #expect(try await console.trail().count == 1)
        }
    }

    @Test("of many at once one is done")
    func concurrency() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(50)
            let replies = try await withThrowingTaskGroup(of: ConsoleReply.self) { group in
                for _ in 0..<24 { group.addTask { try await console.act("dead/retry", #"{"all":true}"#, key: "k") } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(replies.allSatisfy { $0.status == 201 || $0.status == 409 }, "\(replies.map(\.status))")
            #expect(Set(replies.filter { $0.status == 201 }.map(\.text)).count == 1)
            #expect(replies.filter { $0.status == 201 && $0.header("Idempotency-Replayed") == nil }.count == 1)
            #expect(try await console.count("jobs") == 1)
        }
    }

    @Test("what can't be kept, or recorded, is not done")
    func together() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(Self.handlers)
            for (table, check) in [("idempotency_keys", "status = 0"), ("audit", "id < 0")] {
                try await console.database.script(
                    "ALTER TABLE upstream.\(table) ADD CONSTRAINT broken CHECK (\(check)) NOT VALID"
                )
                let reply = try await console.act("handlers/orders/pause", key: "k")
                #expect(reply.status >= 400, "\(table): \(reply.text)")
                #expect(try await console.count("handlers WHERE paused") == 0, "\(table)")
                #expect(try await console.count("idempotency_keys") == 0)
                #expect(try await console.trail().isEmpty)
                try await console.database.script("ALTER TABLE upstream.\(table) DROP CONSTRAINT broken")
            }
            // A refused request is not remembered.
            #expect(try await console.act("handlers/later/pause", key: "later").status == 404)
            try await console.database.script("INSERT INTO upstream.handlers (name) VALUES ('later')")
            #expect(try await console.act("handlers/later/pause", key: "later").status == 200)
        }
    }

    @Test("nobody fills the table: 10,000 keys of one name, and the rest is refused")
    func bounded() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(Self.handlers)
            try await console.database.script(
                """
                INSERT INTO upstream.idempotency_keys (who, key, request, status, answer)
                SELECT 'operator', 'n' || n, '', 200, '' FROM generate_series(1, 10000) AS n
                """
            )
            let reply = try await console.act("handlers/orders/pause")
            #expect(reply.status == 429 && reply.header("Retry-After") != nil)
            #expect(try await console.act("handlers/orders/pause", key: "n5").status == 422)
        }
    }
}
