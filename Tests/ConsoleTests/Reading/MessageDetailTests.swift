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

    @Test("a dismissed stanza leaves the list until it comes again; who and why is recorded; its bytes stay")
    func dismissed() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(
                """
                INSERT INTO upstream.quarantine (sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
                SELECT '1', CASE WHEN n < 3 THEN 'payload_not_json' ELSE 'duplicate_key' END, '',
                    convert_to('<x>' || n, 'UTF8'),
                    sha256(int4send(n)), 1, now() - interval '1 h', now() - interval '1 h' FROM generate_series(1, 4) AS n
                """
            )
            func ids(_ query: String = "") async throws -> [Int] {
                try await console.get("/api/v1/quarantine" + query).items.compactMap { $0["id"] as? Int }.sorted()
            }
            let all = try await ids()
            #expect(try await console.act("quarantine/\(all[0])/dismiss", as: .viewer).status == 403)
            #expect(try await console.act("quarantine/\(all[0])/dismiss", #"{"reason":"known"}"#).status == 200)
            #expect(try await console.act("quarantine/99/dismiss").status == 404)
            #expect(try await console.act("quarantine/dismiss").status == 400)
            for body in [#"{"filter":{"state":"all"}}"#, #"{"all":true,"filter":{"state":"dismissed"}}"#] {
                #expect(try await console.act("quarantine/dismiss", body).status == 400, "a state selects none")
            }
            // An empty list of chosen letters must not select all of the handler's.
            let none = try await console.act("dead/discard", #"{"filter":{"handler":"billing","message_key":[]}}"#)
            #expect(none.status == 400 && none.text.contains("empty list"), "\(none.text)")
            let rest = #"{"filter":{"reason":"duplicate_key"},"reason":"an old app"}"#
            let two = try await console.act("quarantine/dismiss", rest).object
            #expect(two["done"] as? Int == 2 && two["more"] as? Bool == false, "\(two)")
            #expect(try await ids() == [all[1]])
            #expect(try await ids("?state=dismissed") == [all[0], all[2], all[3]])
            #expect(try await ids("?state=all") == all)
            #expect(try await console.count("quarantine WHERE stanza <> ''") == 4)
            #expect(
                try await console.trail() == [
                    "operator|console|quarantine.dismiss|quarantine, \(all[0])|1|known",
                    "operator|console|quarantine.dismiss|quarantine, reason duplicate_key|2|an old app",
                ]
            )
            try await console.database.script(
                "UPDATE upstream.quarantine SET last_seen_at = now() + interval '1 s' WHERE id = \(all[3])"
            )
            #expect(try await ids() == [all[1], all[3]])
            let page = try await console.get("/quarantine?reason=duplicate_key", as: .operator_).text
            #expect(page.contains("Dismiss these") && page.contains("quarantine/\(all[3])/dismiss"))
            #expect(try await !console.get("/quarantine?reason=duplicate_key").text.contains("Dismiss"))
            let lines = try await console.get("/api/v1/quarantine/export?state=all").text.split(separator: "\n")
            #expect(lines.count == 4 && lines[0].contains("stanza_masked") && !lines[0].contains("stanza_base64"))
        }
    }
}
