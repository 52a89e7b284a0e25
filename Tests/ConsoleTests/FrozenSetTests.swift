import ConsoleSupport
import Foundation
import QuerySupport
import Testing

@Suite("dead letters in bulk: what was shown is what is acted on")
struct FrozenSetTests {
    private static let id = "00000000-0000-4000-8000-000000000001"

    private func freeze(
        _ console: ConsoleHarness,
        _ path: String,
        _ json: String = #"{"filter":{"handler":"orders"}}"#
    ) async throws -> String {
        let reply = try await console.act(path, json)
        #expect(reply.status == 201, "\(reply.text)")
        return reply.object["id"] as? String ?? ""
    }

    @Test("the first request shows the set by handler and group; the second acts on it, whatever died or went since")
    func frozen() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(1_500)
            try await console.kill(700, "orders", "timeout")
            try await console.kill(5, "billing")
            let shown = try await console.act("dead/retry", #"{"filter":{"handler":"orders"}}"#)
            #expect(shown.object["planned"] as? Int == 2_200 && shown.object["state"] as? String == "planned")
            let groups = shown.object["groups"] as? [[String: Any]] ?? []
            #expect(groups.map { $0["count"] as? Int } == [1_500, 700], "\(shown.text)")
            #expect(groups.map { $0["error_group"] as? String } == ["status 503", "timeout"])
            #expect(try await console.count("dead_letters") == 2_205)
            #expect(try await console.trail().isEmpty)
            // Meanwhile: some die, some are discarded, some are retried and die again.
            try await console.kill(30)
            try await console.database.script(
                """
                DELETE FROM upstream.dead_letters WHERE ctid IN (
                    SELECT ctid FROM upstream.dead_letters WHERE error_group = 'timeout' LIMIT 100);
                UPDATE upstream.dead_letters SET died_at = now() + interval '1 s' WHERE ctid IN (
                    SELECT ctid FROM upstream.dead_letters WHERE error_group = 'timeout' LIMIT 10)
                """
            )
            let id = shown.object["id"] as? String ?? ""
            let started = try await console.act("dead/retry", "{\"id\":\"\(id)\",\"reason\":\"up again\"}")
            #expect(started.status == 202 && started.header("Location") == "/api/v1/jobs/\(id)", "\(started.text)")
            let job = try await console.ended(id)
            #expect(job["state"] as? String == "finished" && job["done"] as? Int == 2_090, "\(job)")
            #expect(job["skipped"] as? Int == 110)
            #expect(try await console.count("deliveries WHERE handler = 'orders' AND attempts = 0") == 2_090)
            #expect(try await console.count("dead_letters") == 45)
            #expect(try await console.count("job_items") == 0)
            let subject = "dead letters, handler orders"
            #expect(
                try await console.trail() == [
                    "operator|console|dead.retry|\(subject)|2200|up again",
                    "operator|console|dead.retry.finished|\(subject)|2090|up again",
                ]
            )
        }
    }

    @Test(
        "with a rate what is retried becomes due one after the other in the order of arrival, over all its transactions"
    )
    func rate() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(1_500)
            let id = try await freeze(console, "dead/retry")
            // 0.002 a second would be nine days.
            for rate in ["0", "-1", "2e9", "0.002"] {
                let wrong = try await console.act("dead/retry", "{\"id\":\"\(id)\",\"rate\":\(rate)}")
                #expect(wrong.status == 400 && wrong.text.contains("'rate'"), "\(rate): \(wrong.text)")
            }
            let other = try await freeze(console, "dead/discard")
            #expect(try await console.act("dead/discard", "{\"id\":\"\(other)\",\"rate\":10}").status == 400)
            #expect(try await console.act("dead/retry", "{\"id\":\"\(id)\",\"rate\":10}").status == 202)
            let job = try await console.ended(id)
            #expect(job["done"] as? Int == 1_500 && job["rate"] as? Double == 10, "\(job)")
            let apart = try await console.integer(
                """
                SELECT count(*) FROM (
                    SELECT next_attempt_at - lag(next_attempt_at) OVER (ORDER BY received_at, message_key) AS gap
                    FROM upstream.deliveries
                ) AS gaps WHERE gap = interval '100 ms'
                """
            )
            #expect(apart == 1_499)
            #expect(
                try await console.trail().first
                    == "operator|console|dead.retry|dead letters, handler orders, 10 per second|1500"
            )
        }
    }

    @Test("two operators at once start one job, and jobs over the same letters act on each once")
    func twoOperators() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(4_000)
            let (one, two) = (try await freeze(console, "dead/retry"), try await freeze(console, "dead/discard"))
            let replies = try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<8 {
                    let (path, id) = number % 2 == 0 ? ("dead/retry", one) : ("dead/discard", two)
                    group.addTask { try await console.act(path, "{\"id\":\"\(id)\"}").status }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(replies.allSatisfy { $0 == 202 }, "\(replies)")
            let (retried, discarded) = (try await console.ended(one), try await console.ended(two))
            let counts = [retried, discarded].map { ($0["done"] as? Int ?? -1, $0["skipped"] as? Int ?? -1) }
            #expect(counts[0].0 + counts[1].0 == 4_000 && counts.allSatisfy { $0.0 + $0.1 == 4_000 }, "\(counts)")
            #expect(try await console.count("deliveries") == counts[0].0)
            #expect(try await console.count("dead_letters") == 0)
            let starts = try await console.trail().filter { !$0.contains("finished") }
            #expect(starts.count == 2)
        }
    }

    @Test("a set is for its action and its time; an empty one makes no job; nothing is selected by mistake")
    func refusals() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(10)
            let id = try await freeze(console, "dead/retry")
            let other = try await console.act("dead/discard", "{\"id\":\"\(id)\"}")
            #expect(other.status == 409 && other.text.contains("dead.retry"), "\(other.text)")
            try await console.database.script("UPDATE upstream.jobs SET expires_at = now()")
            #expect(try await console.act("dead/retry", "{\"id\":\"\(id)\"}").status == 410)
            #expect(try await console.get("/api/v1/jobs/\(id)").object["state"] as? String == "expired")
            #expect(try await console.act("dead/retry", "{\"id\":\"\(Self.id)\"}").status == 404)
            let empty = try await console.act("dead/retry", #"{"filter":{"group":"none such"}}"#)
            #expect(empty.status == 200 && empty.object["planned"] as? Int == 0 && empty.object["id"] is NSNull)
            for wrong in [
                "{}", #"{"filter":{}}"#, #"{"filter":{"gruop":"x"}}"#, #"{"filter":{"message_key":"x"}}"#,
                #"{"filter":{"since":"x"}}"#, #"{"id":"x"}"#, "{\"id\":\"\(id)\",\"all\":true}",
                #"{"all":true,"reason":"x"}"#,
            ] {
                #expect(try await console.act("dead/discard", wrong).status == 400, "\(wrong)")
            }
            #expect(try await console.count("dead_letters") == 10)
            #expect(try await console.get("/api/v1/jobs/\(Self.id)").status == 404)
        }
    }

    @Test("letters that another session holds are waited for, and a cancelled job does no more")
    func heldAndCancelled() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(2_500)
            let id = try await freeze(console, "dead/discard")
            // The last letter in the order of the set: two chunks go, the third waits.
            try await console.database.script(
                """
                BEGIN; SELECT FROM upstream.dead_letters ORDER BY handler DESC, received_at DESC, message_key DESC LIMIT 1
                FOR UPDATE
                """
            )
            #expect(try await console.act("dead/discard", "{\"id\":\"\(id)\"}").status == 202)
            let waits =
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%job_items%')"
            try await console.waitUntil(waits)
            #expect(try await console.get("/api/v1/jobs/\(id)").object["done"] as? Int == 2_000)
            // A step holds the job's row: the cancel waits for it, and the last step wins.
            try await console.database.script("COMMIT")
            #expect(try await console.ended(id)["done"] as? Int == 2_500)
            #expect(try await console.act("jobs/\(id)/cancel").status == 409)
            try await console.kill(10)
            let next = try await freeze(console, "dead/discard")
            #expect(try await console.act("jobs/\(next)/cancel").status == 200)
            #expect(try await console.act("dead/discard", "{\"id\":\"\(next)\"}").status == 410)
            #expect(try await console.count("dead_letters") == 10)
        }
    }

    @Test("progress comes as events, the last of them is the end")
    func progress() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(3_000)
            let id = try await freeze(console, "dead/retry")
            async let stream = console.get("/api/v1/jobs/\(id)/stream")
            // It has looked once.
            try await console.waitUntil(
                """
                SELECT EXISTS (SELECT FROM pg_stat_activity
                    WHERE query LIKE '%due_to FROM upstream.jobs WHERE job%' AND pid <> pg_backend_pid())
                """
            )
            #expect(try await console.act("dead/retry", "{\"id\":\"\(id)\"}").status == 202)
            let reply = try await stream
            #expect(reply.header("Content-Type") == "text/event-stream")
            let text = reply.text
            let events = text.components(separatedBy: "\n\n").dropLast()
            #expect(events.first?.hasPrefix("event: progress\ndata: {") == true, "\(text)")
            #expect(events.last?.hasPrefix("event: end\ndata: {") == true)
            #expect(events.last?.contains("\"done\":3000") == true)
        }
    }

    @Test("a statement that takes too long is a problem, and nothing is kept of it")
    func timeout() async throws {
        try await ConsoleHarness.run(statementTimeout: 400) { console in
            try await console.kill(10)
            try await console.database.script("BEGIN; LOCK TABLE upstream.dead_letters IN ACCESS EXCLUSIVE MODE")
            let late = try await console.act("dead/retry", #"{"all":true}"#, key: "late")
            #expect(
                late.status == 504 && late.object["type"] as? String == "/problems/statement-timeout",
                "\(late.text)"
            )
            try await console.database.script("COMMIT")
            #expect(try await console.count("jobs") == 0)
            let reply = try await console.act("dead/retry", #"{"all":true}"#, key: "late")
            #expect(reply.status == 201 && reply.object["planned"] as? Int == 10)
        }
    }
}
