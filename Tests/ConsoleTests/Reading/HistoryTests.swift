import ConsoleSupport
import Foundation
import QuerySupport
import Testing

@testable import Console

@Suite("the history, as JSON and as charts")
struct HistoryTests {
    /// Samples of `orders` from 30 to 20 and from 10 minutes ago to now, by two processes, with attempts that failed.
    private static let samples = """
        INSERT INTO upstream.handlers (name, seen_at) VALUES ('orders', now()), ('idle', now());
        SELECT upstream.ensure_samples(current_date - 2, current_date + 1);
        INSERT INTO upstream.samples (
            at, kind, subject, instance, received, stored, handled, failed, times, waiting, oldest, held, started
        )
        SELECT date_trunc('minute', now()) - n * interval '1 minute', kind, subject, worker::uuid, 600, 600, 90, 30,
            '{0,0,0,0,0,0,0,60,60}'::int[] || array_fill(0, ARRAY[8]), 5, 2.5, n = 25,
            CASE WHEN n = 30 AND kind = 'store' THEN '9.8.7' END
        FROM generate_series(0, 30) AS n, (VALUES ('store', ''), ('handler', 'orders')) AS s (kind, subject),
            (VALUES ('00000000-0000-0000-0000-000000000001'), ('00000000-0000-0000-0000-000000000002')) AS w (worker)
        WHERE n NOT BETWEEN 11 AND 19;
        SELECT upstream.ensure_attempts(current_date - 1, current_date + 1);
        INSERT INTO upstream.attempt_batches (
            settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, error_groups
        ) SELECT now(), 'orders', 'host:1', outcome, now(), now(), ARRAY[gen_random_uuid()], '{1}', '{0.25}', groups
        FROM (VALUES
            ('done', NULL), ('retry', ARRAY['webhook status 503']), ('exhausted', ARRAY['<b>FAKE-words</b>'])
        ) AS attempts (outcome, groups)
        """

    @Test("rates, percentiles and backlog by minute; what was not measured is null, and no zero")
    func api() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(Self.samples)
            let reply = try await console.get("/api/v1/history?subject=handler:orders&range=1h")
            let points = try #require(reply.object["points"] as? [[String: Any]])
            #expect(points.count == 60 && reply.object["step_seconds"] as? Int == 60)
            let measured = points.filter { $0["minutes"] as? Int == 1 }
            #expect((20...22).contains(measured.count))
            for point in measured {
                #expect(
                    point["handled"] as? Double == 3 && point["failed"] as? Double == 1 && point["waiting"] as? Int == 5
                )
                #expect(point["p50"] as? Double == 0.05 && point["p95"] as? Double == 0.1)
            }
            for name in ["handled", "failed", "p50", "waiting", "oldest_seconds", "held"] {
                #expect(points.filter { $0["minutes"] as? Int == 0 }.allSatisfy { $0[name] is NSNull }, "\(name)")
            }
            for (query, count) in [("", 60), ("range=24h", 180), ("subject=handler:orders&range=7d", 168)] {
                let points = try await console.get("/api/v1/history?\(query)").object["points"] as? [[String: Any]]
                #expect(points?.count == count)
            }
            for query in ["subject=orders", "subject=handler:", "range=2h", "step=1"] {
                #expect(try await console.get("/api/v1/history?\(query)").status == 400, "\(query)")
            }
            #expect(try await console.get("/api/v1/history", as: .nobody).status == 401)
        }
    }

    @Test(
        "a handler's page draws gaps as gaps, and shows failures without what payloads say to those who may not see them"
    )
    func page() async throws {
        let hides: @Sendable (inout ConsoleSettings) -> Void = { $0.showsPayloads = false }
        try await ConsoleHarness.run(configure: hides) { console in
            try await console.database.script(Self.samples)
            for range in ["1h", "24h", "7d"] {
                let page = try await console.get("/handlers/orders?range=\(range)")
                #expect(page.status == 200 && page.text.utf8.count < 60_000, "\(page.text.utf8.count) bytes")
                #expect(page.text.contains("<rect class=\"gap\"") && page.text.contains("<rect class=\"held\""))
                #expect(page.text.contains("not measured") && page.text.contains("25%"))
                #expect(page.text.contains("webhook status 503") && !page.text.contains("FAKE-words"))
                #expect(page.text.contains("250 ms") && page.text.contains("The same as a table"))
            }
            let page = try await console.get("/handlers/orders").text
            let lines = page.matches(of: #/<path class="line s0" d="([^"]*)"/#).map { String($0.output.1) }
            #expect(
                lines.count == 5 && lines.allSatisfy { $0.count { $0 == "M" } == 2 },
                "a line for each side of the gap"
            )
            #expect(try await console.get("/").text.contains("worker started: 9.8.7"))
        }
    }

    @Test("over 7 days the last 24 hours stand beside the 24 before, in figures that compare")
    func days() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(Self.samples)
            try await console.database.script(
                """
                INSERT INTO upstream.samples (at, kind, subject, instance, handled, failed, times, waiting, oldest, held)
                SELECT date_trunc('minute', now()) - interval '30 hours', kind, subject, gen_random_uuid(), 95, 5,
                    '{0,0,0,0,0,0,0,60,60}'::int[] || array_fill(0, ARRAY[8]), 5, 2.5, false
                FROM (VALUES ('store', ''), ('handler', 'orders')) AS s (kind, subject)
                """
            )
            for path in ["/?range=", "/handlers/orders?range="] {
                let page = try await console.get(path + "7d").text
                let cells = page.matches(of: #/data-label="Attempts failed">([^<]*)</#).map { String($0.output.1) }
                #expect(cells == ["25%", "5%"], "\(path)")
                #expect(page.contains("last 24 hours") && page.contains("24 hours before"))
                #expect(try await !console.get(path + "24h").text.contains("Since yesterday"))
            }
        }
    }

    @Test("without samples the charts say so; an unknown handler is not found")
    func empty() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script("INSERT INTO upstream.handlers (name, seen_at) VALUES ('a/b', now())")
            for path in ["/", "/handlers", "/handlers/a%2Fb"] {
                #expect(try await console.get(path).status == 200, "\(path)")
            }
            let page = try await console.get("/handlers/a%2Fb").text
            #expect(page.contains("not measured") && page.contains("No attempt failed") && !page.contains("NaN"))
            #expect(try await console.get("/handlers/none").status == 404)
        }
    }

    @Test("the list has the worst first, or another order, and its rows lead to the pages")
    func list() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(Self.samples)
            func names(_ path: String) async throws -> [String] {
                let page = try await console.get(path).text
                return page.matches(of: #/href="\/handlers\/(\w+)"/#).map { String($0.output.1) }
            }
            #expect(try await names("/handlers") == ["orders", "idle"], "a quarter of its attempts failed")
            #expect(try await names("/handlers?sort=rate") == ["idle", "orders"])
            #expect(try await names("/handlers?sort=p95") == ["orders", "idle"])
        }
    }
}
