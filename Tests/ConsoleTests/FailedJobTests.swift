import ConsoleSupport
import Foundation
import QuerySupport
import Testing

@Suite("jobs that can't go on")
struct FailedJobTests {
    private func freeze(_ console: ConsoleHarness, _ handler: String) async throws -> String {
        let reply = try await console.act("dead/retry", "{\"filter\":{\"handler\":\"\(handler)\"}}")
        #expect(reply.status == 201, "\(reply.text)")
        return reply.object["id"] as? String ?? ""
    }

    private func start(_ console: ConsoleHarness, _ id: String) async throws -> Int {
        try await console.act("dead/retry", "{\"id\":\"\(id)\",\"reason\":\"up\"}").status
    }

    @Test("a job that the database refuses ends as failed, keeps no items, is in the trail and isn't started again")
    func failed() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(1_500)
            let id = try await freeze(console, "orders")
            // The second chunk holds a letter that no delivery can be made of.
            try await console.database.script(
                """
                UPDATE upstream.dead_letters SET last_error = 'poison' WHERE message_key = (
                    SELECT message_key[1] FROM upstream.job_items WHERE chunk = 1);
                ALTER TABLE upstream.deliveries ADD CONSTRAINT harmless CHECK (last_error <> 'poison')
                """
            )
            #expect(try await start(console, id) == 202)
            let job = try await console.ended(id)
            #expect(job["state"] as? String == "failed" && job["done"] as? Int == 1_000, "\(job)")
            #expect((job["error"] as? String)?.contains("harmless") == true, "\(job)")
            #expect(try await console.count("job_items") == 0)
            #expect(try await console.count("dead_letters") == 500)
            #expect(
                try await console.trail() == [
                    "operator|console|dead.retry|dead letters, handler orders|1500|up",
                    "operator|console|dead.retry.finished|failed: dead letters, handler orders|1000|up",
                ]
            )
            let again = try await console.act("dead/retry", "{\"id\":\"\(id)\"}")
            #expect(again.status == 409 && again.object["type"] as? String == "/problems/job-failed", "\(again.text)")
        }
    }

    @Test("a job that is held up says by what, and those behind it go on")
    func heldUp() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(10)
            try await console.kill(10, "billing")
            let (held, free) = (try await freeze(console, "orders"), try await freeze(console, "billing"))
            try await console.database.script(
                """
                CREATE FUNCTION upstream.hold_up() RETURNS trigger LANGUAGE plpgsql
                AS 'BEGIN RAISE EXCEPTION ''held up'' USING ERRCODE = ''lock_not_available''; END';
                CREATE TRIGGER hold_up BEFORE DELETE ON upstream.dead_letters FOR EACH ROW WHEN (OLD.handler = 'orders')
                EXECUTE FUNCTION upstream.hold_up()
                """
            )
            #expect(try await start(console, held) == 202)
            try await console.waitUntil("SELECT last_error IS NOT NULL FROM upstream.jobs WHERE job = '\(held)'")
            #expect(try await start(console, free) == 202)
            #expect(try await console.ended(free)["done"] as? Int == 10)
            let job = try await console.get("/api/v1/jobs/\(held)").object
            #expect(job["state"] as? String == "running" && job["done"] as? Int == 0, "\(job)")
            #expect((job["error"] as? String)?.contains("held up") == true, "\(job)")
            try await console.database.script("DROP TRIGGER hold_up ON upstream.dead_letters")
            let end = try await console.ended(held)
            #expect(end["state"] as? String == "finished" && end["done"] as? Int == 10, "\(end)")
            #expect(end["error"] is NSNull)
        }
    }
}
