import ConsoleSupport
import Foundation
import QuerySupport
import Testing

@Suite("what the console asks others to delete, since its role may not", .timeLimit(.minutes(10)))
struct MaintenanceTests {
    private static let seeds = [
        Seed(id: "m-1", token: "token-SECRET-a"), Seed(id: "m-2", token: "token-SECRET-a", at: 1),
        Seed(id: "m-3", token: "token-SECRET-b", at: 2),
    ]

    /// Runs a console with its own role; gives the key of the device with two messages.
    private func run(_ body: @escaping @Sendable (ConsoleHarness, String) async throws -> Void) async throws {
        try await ConsoleHarness.run(Self.seeds, prepare: ConsoleRoleTests.addRoles, role: "c") { console in
            let device = try await console.database.text(
                "SELECT device_key::text FROM upstream.messages WHERE message_id = 'm-1'"
            )
            try await body(console, try #require(device))
        }
    }

    @Test("a device's rows are counted, and its erasure is asked for with a reason, once; nothing is deleted here")
    func forget() async throws {
        try await run { console, device in
            try await console.database.script(
                """
                INSERT INTO upstream.handlers (name) VALUES ('orders');
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                SELECT 'orders', message_key, received_at, now() FROM upstream.messages WHERE message_id <> 'm-2'
                """
            )
            let path = "devices/\(device)/forget"
            let counted = try await console.act(path).object
            #expect(counted["planned"] as? Int == 3 && counted["messages"] as? Int == 2, "\(counted)")
            let about = "2 messages, 1 waiting delivery, and the quarantined stanzas that hold its token"
            #expect(counted["about"] as? String == about)
            let time = try #require(counted["as_of"] as? String)
            for body in [
                #"{"as_of":"\#(time)"}"#, #"{"as_of":"\#(time)","reason":" "}"#, #"{"as_of":"soon","reason":"x"}"#,
            ] {
                #expect(try await console.act(path, body).status == 400, "\(body)")
            }
            #expect(try await console.count("maintenance_requests") == 0)
            #expect(try await console.trail().isEmpty)
            let body = #"{"as_of":"\#(time)","reason":"she asked"}"#
            let asked = try await console.act(path, body)
            #expect(asked.status == 200 && asked.object["done"] as? Int == 1, "\(asked.text)")
            let again = try await console.act(path, body)
            #expect(again.object["request"] as? Int == asked.object["request"] as? Int && again.status == 200)
            let entry = "operator|console|forget.request|device \(device)|3|she asked"
            #expect(try await console.trail() == [entry, entry])
            #expect(try await console.count("messages") == 3)
            #expect(try await console.count("deliveries") == 2)
            let rows = try await console.database.text(
                "SELECT json_agg(r)::text FROM upstream.maintenance_requests AS r"
            )
            #expect(rows?.contains("SECRET") == false && rows?.contains(device) == true)

            let listed = try await console.get("/api/v1/maintenance")
            #expect(listed.items.count == 1 && listed.items.first?["state"] as? String == "open", "\(listed.text)")
            #expect(listed.items.first?["device_key"] as? String == device)
            let page = try await console.get("/retention").text
            #expect(
                page.contains("she asked") && page.contains("operator") && page.contains("/messages?device=\(device)")
            )
        }
    }

    @Test("a key of no device, or of no form, is refused, and too many that are open are said so")
    func forged() async throws {
        try await run { console, device in
            let body = #"{"as_of":"2026-03-01T12:00:00Z","reason":"x"}"#
            for body in ["{}", body] {
                #expect(try await console.act("devices/\(UUID().uuidString)/forget", body).status == 404)
                #expect(try await console.act("devices/token-SECRET-a/forget", body).status == 400)
            }
            #expect(try await console.count("maintenance_requests") == 0)
            try await console.database.script(
                """
                INSERT INTO upstream.maintenance_requests (kind, device_key, who, reason, requested_at)
                SELECT 'forget', gen_random_uuid(), 'x', 'y', now() - interval '25 h' FROM generate_series(1, 100)
                """
            )
            let refused = try await console.act("devices/\(device)/forget", body)
            #expect(refused.status == 429 && refused.object["type"] as? String == "/problems/too-many-asked")
            #expect(try await console.trail().isEmpty)
            #expect(try await console.get("/").text.contains("upstream-worker forget --requests"))
        }
    }

    @Test("a run of retention is counted, and asked for with a reason")
    func retention() async throws {
        try await run { console, _ in
            #expect(try await !console.get("/retention", as: .operator_).text.contains("Run retention now"))
            try await console.database.script(
                """
                INSERT INTO upstream.retention_policy
                VALUES ('30 days', '35 days', '90 days', '7 days', 'test', now() - interval '1 day');
                SELECT upstream.ensure_partitions('2020-01-01', '2020-01-02');
                INSERT INTO upstream.quarantine (
                    sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
                ) VALUES ('1', 'duplicate_key', '', 'x', 'x', 1, '2020-01-01Z', '2020-01-01Z')
                """
            )
            let due = try await console.get("/api/v1/partitions").object["items"] as? [[String: Any]]
            let days = try #require(due).filter { $0["fate"] as? String == "drop" }.count
            #expect(days >= 2)
            let counted = try await console.act("partitions/run").object
            let about = try #require(counted["about"] as? String)
            #expect(
                about.hasPrefix("\(days) days of messages (") && about.contains("1 quarantined stanza"),
                "\(about)"
            )
            let time = try #require(counted["as_of"] as? String)
            #expect(try await console.act("partitions/run", #"{"as_of":"\#(time)"}"#).status == 400)
            let asked = try await console.act("partitions/run", #"{"as_of":"\#(time)","reason":"disk full"}"#)
            #expect(asked.status == 200, "\(asked.text)")
            #expect(try await console.trail() == ["operator|console|partitions.request|retention|disk full"])
            let after = try await console.get("/api/v1/partitions").object["items"] as? [[String: Any]]
            #expect(after?.count == due?.count)
            let page = try await console.get("/retention", as: .operator_).text
            #expect(page.contains("Run retention now") && page.contains("disk full"))
            try await lists(console)
        }
    }

    /// The page begins with the days that hold something, the latest first, and ends with those ahead.
    private func lists(_ console: ConsoleHarness) async throws {
        try await console.database.script("SELECT upstream.ensure_partitions(current_date, current_date + 3)")
        let table =
            try await console.get("/retention").text.split(separator: "<caption class=\"unseen\">Days").last ?? ""
        let days = table.matches(of: /tight">(\d{4}-\d\d-\d\d)<.*?<span class="badge \w+">(\w+)</).map {
            (day: String($0.1), isAhead: $0.2 == "ahead")
        }
        let (held, ahead) = (days.prefix { !$0.isAhead }, days.drop { !$0.isAhead })
        #expect(held.count >= 3 && ahead.count >= 2 && ahead.allSatisfy(\.isAhead), "\(table)")
        #expect(held.map(\.day) == held.map(\.day).sorted(by: >) && ahead.map(\.day) == ahead.map(\.day).sorted())
    }

    @Test("only who may act sees the buttons, that of a device where a list is of this device")
    func buttons() async throws {
        try await run { console, device in
            try await console.database.script(
                "INSERT INTO upstream.retention_policy VALUES ('30 days', '35 days', '90 days', '7 days', 'test', now())"
            )
            let label = "Forget this device"
            let page = try await console.get("/messages?device=\(device)", as: .operator_).text
            #expect(page.contains(label) && page.contains("data-verb=\"Ask to erase\""))
            #expect(page.contains("data-action=\"/api/v1/devices/\(device)/forget\""))
            #expect(try await !console.get("/messages", as: .operator_).text.contains(label))
            #expect(
                try await !console.get("/messages?device=\(UUID().uuidString)", as: .operator_).text.contains(label)
            )
            for caller in [ConsoleHarness.Caller.viewer, .auditor, .revealer] {
                #expect(try await !console.get("/messages?device=\(device)", as: caller).text.contains(label))
                #expect(try await !console.get("/retention", as: caller).text.contains("Run retention now"))
            }
        }
    }
}
