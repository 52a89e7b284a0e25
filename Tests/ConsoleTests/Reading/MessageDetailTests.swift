import ConsoleSupport
import Foundation
import QuerySupport
import Testing

@Suite("GET messages/{key}, conflicts and quarantine", .timeLimit(.minutes(10)))
struct MessageDetailTests {
    @Test("a message is shown with what waits, what was given up, and what contradicts it")
    func detail() async throws {
        try await ConsoleHarness.run([Seed(id: "m1"), Seed(id: "m2", at: 1)]) { console in
            let key = try #require(
                try await console.database.text(
                    "SELECT message_key::text FROM upstream.messages WHERE message_id = 'm1'"
                )
            )
            try await console.database.script(
                """
                INSERT INTO upstream.handlers (name) VALUES ('billing'), ('orders');
                INSERT INTO upstream.deliveries (handler, message_key, received_at, attempts, next_attempt_at, last_error)
                SELECT 'billing', message_key, received_at, 2, now() + interval '1 hour', 'status 503'
                FROM upstream.messages WHERE message_id = 'm1';
                INSERT INTO upstream.dead_letters (
                    handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group, last_error
                ) SELECT 'orders', message_key, received_at, 20, now(), 0, 'reject', 'no such item'
                FROM upstream.messages WHERE message_id = 'm1'
                """
            )
            try await console.database.add([Seed(id: "m1", data: #"{"a":2}"#, at: 5)], into: "conflicts")
            let found = try await console.get("/api/v1/messages/\(key)").object
            #expect(found["message_key"] as? String == key && (found["data"] as? [String: Any])?["a"] as? Int == 1)
            #expect((found["deliveries"] as? [[String: Any]])?.first?["handler"] as? String == "billing")
            #expect((found["dead_letters"] as? [[String: Any]])?.first?["error_group"] as? String == "reject")
            #expect((found["conflicts"] as? [[String: Any]])?.count == 1)
            #expect(found["registration_token"] == nil)

            let conflict = try await console.get("/api/v1/conflicts/\(key)").object
            #expect(((conflict["stored"] as? [String: Any])?["data"] as? [String: Any])?["a"] as? Int == 1)
            let copies = conflict["conflicts"] as? [[String: Any]]
            #expect((copies?.first?["data"] as? [String: Any])?["a"] as? Int == 2)
            #expect(try await console.get("/api/v1/conflicts").items.count == 1)
            #expect(try await console.get("/api/v1/conflicts?where=data.a%3D3").items.isEmpty)

            let waiting = try await console.get("/api/v1/deliveries").items
            #expect(
                waiting.first?["reason"] as? String == "retry" && waiting.first?["error"] as? String == "status 503"
            )
            let dead = try await console.get("/api/v1/dead?group=reject").items
            #expect(dead.count == 1 && dead.first?["category"] as? String == "com.example.orders")
            let groups = try await console.get("/api/v1/dead/groups").items
            #expect(groups.first?["error_group"] as? String == "reject" && groups.first?["count"] as? Int == 1)
        }
    }

    @Test("an unknown key is 404, and what is no key is 400")
    func unknown() async throws {
        try await ConsoleHarness.run { console in
            let key = "00000000-0000-0000-0000-000000000001"
            for path in ["messages", "conflicts", "replays"] {
                let unknown = try await console.get("/api/v1/\(path)/\(key)")
                let wrong = try await console.get("/api/v1/\(path)/x'--")
                #expect(unknown.status == 404 && wrong.status == 400, "\(path)")
            }
            #expect(try await console.get("/api/v1/quarantine/1").status == 404)
            #expect(try await console.get("/api/v1/quarantine/x").status == 400)
        }
    }

    @Test("a quarantined stanza is shown as text with its tokens masked, verbatim only with the right")
    func quarantine() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(
                """
                INSERT INTO upstream.quarantine (sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
                VALUES ('1', 'payload_not_json', '', convert_to('<gcm a="\u{1B}[2J">{"from":"token-SECRET"}</gcm>', 'UTF8'),
                    sha256('x'), 1, now(), now())
                """
            )
            let list = try await console.get("/api/v1/quarantine?reason=payload_not_json")
            let id = try #require(list.items.first?["id"] as? Int)
            #expect(list.items.first?["stanza_masked"] == nil)
            let shown = try await console.get("/api/v1/quarantine/\(id)")
            #expect(!shown.text.contains("token-SECRET") && !shown.text.contains("\u{1B}"))
            #expect((shown.object["stanza_masked"] as? String)?.contains("(masked)") == true)
            #expect(try await console.get("/api/v1/quarantine/\(id)?reveal=token").status == 403)
            let revealed = try await console.get("/api/v1/quarantine/\(id)?reveal=token", as: .revealer)
            let stanza = (revealed.object["stanza_base64"] as? String).flatMap { Data(base64Encoded: $0) }
            #expect(stanza.map { String(decoding: $0, as: UTF8.self) }?.contains("token-SECRET") == true)
            let wrong = try await console.get("/api/v1/quarantine?reason=payload_not_jsn")
            #expect((wrong.object["detail"] as? String)?.contains("did you mean 'payload_not_json'?") == true)
        }
    }
}
