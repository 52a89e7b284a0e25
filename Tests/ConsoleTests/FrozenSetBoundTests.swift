import ConsoleSupport
import NIOHTTP1
import QuerySupport
import Testing

@testable import Console

@Suite("what frozen sets may hold together")
struct FrozenSetBoundTests {
    @Test("sets and running jobs are bounded together; an expired set holds nothing, and says that it has expired")
    func bounds() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(10)
            let first = try await console.act("dead/retry", #"{"all":true}"#)
            let id = first.object["id"] as? String ?? ""
            #expect(first.status == 201 && !id.isEmpty, "\(first.text)")
            // With the first set's 10 there is room for 5 more; the runner leaves alone what waits for its start.
            try await console.database.script(
                """
                INSERT INTO upstream.jobs (action, subject, groups, planned, chunks, created_by, expires_at)
                VALUES ('dead.retry', 'large', '[]', \(Jobs.mostHeld - 15), 1, 'x', now() + interval '1 hour')
                """
            )
            let full = try await console.act("dead/retry", #"{"all":true}"#)
            #expect(full.status == 429 && full.object["type"] as? String == "/problems/too-many-jobs", "\(full.text)")
            #expect(try await console.count("jobs") == 2)
            try await console.database.script("UPDATE upstream.jobs SET expires_at = now() WHERE job = '\(id)'")
            let next = try await console.act("dead/retry", #"{"all":true}"#)
            #expect(next.status == 201, "\(next.text)")
            #expect(try await console.count("job_items WHERE job = '\(id)'") == 0)
            #expect(try await console.act("dead/retry", "{\"id\":\"\(id)\"}").status == 410)
        }
    }

    @Test("fifty streams of jobs run at once, twelve of one who asks; a place is free again after its stream")
    func streams() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(10)
            let id = try await console.act("dead/retry", #"{"all":true}"#).object["id"] as? String ?? ""
            try await withThrowingTaskGroup(of: ConsoleReply.self) { group in
                for _ in 0...12 { group.addTask { try await console.get("/api/v1/jobs/\(id)/stream") } }
                // The others go on until the set is given up.
                let refused = try await group.next()
                #expect(refused?.status == 503 && refused?.header("Retry-After") == "10", "\(refused?.text ?? "")")
                let other = try await console.open("/api/v1/jobs/\(id)/stream", as: .auditor)
                #expect(other.status == .ok)
                #expect(try await console.act("jobs/\(id)/cancel").status == 200)
                let rest = try await group.reduce(into: []) { $0.append($1.status) }
                #expect(rest == Array(repeating: 200, count: 12))
            }
            #expect(try await console.get("/api/v1/jobs/\(id)/stream").status == 200)
        }
    }

    @Test("places are bounded in all, and for each who asks")
    func places() throws {
        let places = StreamPlaces(5, "streams", instead: "wait")
        func take(_ reader: String) -> StreamPlaces.Place? {
            ReadPool.$reader.withValue(reader) { try? places.take() }
        }
        var held = ["a", "b", "c", "d", "e"].map(take)
        #expect(held.allSatisfy { $0 != nil } && take("f") == nil)
        held.removeLast()
        #expect(take("a") == nil && take("f") != nil)
    }
}
