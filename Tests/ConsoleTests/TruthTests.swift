import ConsoleSupport
import DatabaseSupport
import IntegrationSupport
import Postgres
import QuerySupport
import Querying
import Synchronization
import Testing
import UpstreamConfiguration
import Vocabulary

@testable import Console

@Suite("pages say what is so")
struct TruthTests {
    @Test("what needs attention begins with the groups of the last hour, then the largest, whatever their names")
    func groups() async throws {
        try await ConsoleHarness.run { console in
            for name in ["a", "b", "c", "d", "e"] { try await console.kill(2, "orders", "\(name) old") }
            try await console.kill(9, "orders", "y largest")
            try await console.database.script("UPDATE upstream.dead_letters SET died_at = now() - interval '2 hours'")
            try await console.kill(1, "orders", "z latest")
            let items = try await console.get("/api/v1/dead/groups").items.map { $0["error_group"] as? String ?? "" }
            #expect(items.count == 7 && items.prefix(2) == ["z latest", "y largest"], "\(items)")
            let page = try await console.get("/").text
            #expect(page.contains("z latest") && page.contains("y largest") && !page.contains("e old"))
        }
    }

    @Test("a count that stops is said to be at least so much, on every page")
    func atLeast() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(10_001)
            for page in ["/", "/dead"] {
                let text = try await console.get(page).text
                #expect(text.contains("10,000+") && !text.contains(">10,000<"), "\(page)")
            }
        }
    }

    @Test("a silent worker and its senders need attention until it is dismissed, which the audit trail knows")
    func silent() async throws {
        try await ConsoleHarness.run(prepare: ConsoleRoleTests.addRoles, role: "c") { console in
            try await console.database.script(
                HealthySystem.worker("alive:1") + HealthySystem.worker("dead:2", age: "23 hours")
                    + "UPDATE upstream.workers SET streams = replace(streams::text, '1234567890', '777')::jsonb WHERE worker = 'dead:2'"
            )
            func instance(_ worker: String) async throws -> String {
                let rows = try await console.get("/api/v1/workers").items
                return rows.first { $0["worker"] as? String == worker }?["instance"] as? String ?? ""
            }
            let page = try await console.get("/").text
            #expect(page.contains("silent worker") && page.contains("dead:2") && !page.contains("All is well"))
            #expect(page.contains("no stream") && page.contains("777") && page.contains("none bound"))
            #expect(!page.contains("Dismiss"))
            #expect(try await console.get("/", as: .operator_).text.contains("Dismiss"))
            let dead = try await instance("dead:2")
            #expect(try await console.act("workers/\(try await instance("alive:1"))/dismiss").status == 404)
            #expect(try await console.act("workers/\(dead)/dismiss", as: .viewer).status == 403)
            let done = try await console.act("workers/\(dead)/dismiss", #"{"reason":"replaced"}"#)
            #expect(done.status == 200, "\(done.text)")
            #expect(try await console.trail() == ["operator|console|workers.dismiss|worker dead:2|1|replaced"])
            #expect(try await console.get("/").text.contains("All is well"))
        }
    }

    @Test("jobs are listed, and the running ones on the page of what they work on, for whoever may act to cancel")
    func jobs() async throws {
        try await ConsoleHarness.run { console in
            let holder = try await PostgresConnection.open(console.database.settings)
            try await holder.run { connection throws(PostgresError) in
                try connection.script(
                    """
                    BEGIN;
                    INSERT INTO upstream.jobs (action, subject, groups, state, planned, chunks, next_chunk, done, created_by,
                        expires_at, started_by, started_at, reason)
                    VALUES ('dead.retry', 'dead letters, handler orders', '[]', 'running', 3000, 3, 1, 1000, 'kim', now(), 'kim',
                        now(), 'up again')
                    """
                )
            }
            // Not for the console that would finish it: its row is locked when others see it.
            try await holder.run { connection throws(PostgresError) in
                try connection.script("COMMIT AND CHAIN; SELECT FROM upstream.jobs FOR UPDATE")
            }
            for path in ["/jobs", "/dead"] {
                let page = try await console.get(path, as: .operator_).text
                #expect(page.contains("1,000 of 3,000") && page.contains("/cancel") && page.contains("kim"), "\(path)")
                #expect(page.contains(#"data-refresh="2""#), "\(path)")
                #expect(try await !console.get(path).text.contains("/cancel"), "\(path)")
            }
            let listed = try await console.get("/api/v1/jobs").items
            #expect(listed.count == 1 && listed.first?["state"] as? String == "running")
            await holder.close()
        }
    }

    @Test(
        "a delivery whose handler's circuit is open is held, with why, and retrying what is due says why nothing moved"
    )
    func circuit() async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script(Self.open(failures: 5, "webhook status 503"))
            let row = try await console.get("/api/v1/deliveries").items.first ?? [:]
            #expect(row["reason"] as? String == "held" && row["held_until"] is String, "\(row)")
            let why = "the circuit is open: 5 failures, last: webhook status 503"
            #expect(row["held_reason"] as? String == why)
            let page = try await console.get("/deliveries").text
            #expect(page.contains(why) && page.contains("held") && !page.contains(">due<"))
            #expect(page.contains("a probe is due <time"), "\(page)")
            for path in ["/handlers", "/handlers/orders"] {
                let page = try await console.get(path).text
                #expect(
                    page.contains("circuit open") && page.contains("5 failures, last: webhook status 503"),
                    "\(path)"
                )
            }
            let answer = try await console.act("deliveries/retry-now", #"{"handler":"orders"}"#).object
            #expect(answer["done"] as? Int == 0)
            let unmoved =
                "Nothing moved: 1 are due already and wait for their turn. Open circuits and holds have ended."
            #expect(answer["why"] as? String == unmoved)
            #expect(answer["more"] as? Bool == false)
        }
    }

    @Test("of an open circuit nothing is said that is not known: no count of failures, no end that is over")
    func circuitUnknown() async throws {
        try await ConsoleHarness.run { console in
            let last = "exec program ended repeatedly"
            try await console.database.script(Self.open(failures: 0, last, probe: 2, age: "10 s"))
            let row = try await console.get("/api/v1/deliveries").items.first ?? [:]
            #expect(row["held_reason"] as? String == "the circuit is open: \(last)", "\(row)")
            #expect(row["reason"] as? String == "held" && !(row["held_until"] is String), "\(row)")
            for path in ["/deliveries", "/handlers/orders", "/handlers"] {
                let page = try await console.get(path).text
                #expect(page.contains(last) && !page.contains("0 failures"), "\(path): \(page)")
                #expect(page.contains("a probe is due or under way") || path == "/handlers", "\(path): \(page)")
            }
            let handler = try await console.get("/api/v1/handlers").items.first ?? [:]
            #expect(handler["circuit"] as? String == "open" && !(handler["next_probe_at"] is String), "\(handler)")
        }
    }

    /// A handler whose circuit is open, to be probed so many seconds after a report of this age, with a delivery that is due.
    private static func open(failures: Int, _ last: String, probe: Int = 30, age: String = "0 s") -> String {
        let handlers = """
            [{"handler": "orders", "circuit": "open", "next_probe": \(probe), "paused": false, "running": 0, "waiting": 0, \
            "attempts": 0, "failed": 0, "failed_in_row": \(failures), "last_failure": "\(last)"}]
            """
        return HealthySystem.worker(age: age, handlers: handlers) + """
            INSERT INTO upstream.handlers (name, seen_at) VALUES ('orders', now());
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            VALUES ('orders', gen_random_uuid(), now(), now())
            """
    }

    @Test("nobody is shown a part of the console that they may not see")
    func navigation() async throws {
        try await ConsoleHarness.run { console in
            #expect(try await !console.get("/").text.contains("href=\"/audit\""))
            #expect(try await console.get("/", as: .auditor).text.contains("href=\"/audit\""))
            for caller in [ConsoleHarness.Caller.viewer, .operator_, .auditor] {
                let page = try await console.get("/", as: caller).text
                for link in page.matches(of: /<li><a href="([^"]*)"/) {
                    #expect(try await console.get(String(link.1), as: caller).status == 200, "\(caller): \(link.1)")
                }
            }
        }
    }

    @Test("the environment's name and colour are on every page, before signing in too, and its icon has the colour")
    func environment() async throws {
        try await ConsoleHarness.run {
            ($0.name, $0.colour) = ("<staging>", .red)
        } _: { console in
            for (path, caller) in [("/", ConsoleHarness.Caller.viewer), ("/sign-in", .nobody), ("/none", .viewer)] {
                let page = try await console.get(path, as: caller).text
                #expect(page.contains("&lt;staging&gt;</title>") && page.contains("env-red"), "\(path)")
                let icon = try #require(page.firstMatch(of: /rel="icon" href="([^"]*)"/), "\(path)")
                #expect(try await console.get(String(icon.1), as: .nobody).text.contains("#b3261e"))
            }
        }
    }

    // MARK: Searches

    private static let seeds = (0..<120).map {
        Seed(id: "m-\($0)", data: #"{"n":\#($0)}"#, at: Int64($0) * 3_600_000_000)
    }

    @Test("conditions on data look at the last 24 hours, which the form and a note say, and at all when asked")
    func reach() async throws {
        try await ConsoleHarness.run(Self.seeds) { console in
            let recent = try await console.get("/messages?where=data.n%3E%3D0").text
            #expect(recent.contains(#"value="24h""#) && recent.contains("Nothing matches"))
            let all = try #require(recent.firstMatch(of: /href="([^"]*)">Look at all/))
            let page = try await console.get(String(all.1).replacing("&amp;", with: "&")).text
            #expect(page.contains("m-119") && page.contains("Next page") && !page.contains("Look at all"))
            #expect(try await !console.get("/messages").text.contains(#"value="24h""#))
        }
    }

    @Test("a search whose time is over shows what it found, and goes on from there until all is found, each once")
    func search() async throws {
        let database = try await QueryFixture(Self.seeds)
        var filter = MessageFilter()
        filter.clauses = [try WhereClause(parsing: "data.n>=0")]
        filter.until = QueryFixture.start + .seconds(200 * 3_600)
        var (cursor, found, breaks): (MessageCursor?, [Timestamp], Int) = (nil, [], 0)
        repeat {
            let ticks = Mutex(ContinuousClock.now)
            var search = try await MessageSearch(
                MessagePager(filter, .newestFirst, limit: 50, after: cursor),
                database.reader
            ) {
                ticks.withLock { now in
                    now += .milliseconds(240)
                    return now
                }
            }
            let page = try await search.run(database.reader)
            found += page.messages.map(\.cursor.receivedAt)
            if page.searchedTo != nil { breaks += 1 }
            cursor = page.next
        } while cursor != nil && breaks < 5_000
        #expect(found == (0..<120).reversed().map { QueryFixture.start + .seconds($0 * 3_600) })
        #expect(breaks > 0)
    }

    @Test("a search finds what lies in days whose partitions a site has named itself")
    func namedDays() async throws {
        try await ConsoleHarness.run(Self.seeds) { console in
            try await console.database.script(
                """
                DO $$
                DECLARE
                    day name;
                BEGIN
                    FOR day IN SELECT relname FROM upstream.partitions() WHERE since < '2026-03-04 00:00+00' LOOP
                        EXECUTE format('ALTER TABLE upstream.%I RENAME TO %I', day, 'older_' || day);
                    END LOOP;
                END $$
                """
            )
            let page = try await console.get("/messages?where=data.n%3D5&since=2026-03-01").text
            #expect(page.contains("m-5") && !page.contains("Nothing matches"))
        }
    }

    @Test("a search that takes too long keeps the form and says so")
    func tooLong() async throws {
        try await ConsoleHarness.run(
            [Seed(id: "m1")],
            prepare: ConsoleRoleTests.addRoles,
            role: "c",
            statementTimeout: 300
        ) { console in
            try await console.database.script(
                """
                -- Looking at a row takes longer than a statement may, for all but the owner.
                CREATE FUNCTION upstream.slow() RETURNS boolean LANGUAGE plpgsql STABLE
                AS $$ BEGIN PERFORM pg_sleep(60); RETURN true; END $$;
                ALTER TABLE upstream.messages ENABLE ROW LEVEL SECURITY;
                CREATE POLICY slow ON upstream.messages USING (upstream.slow())
                """
            )
            let page = try await console.get("/messages?where=data.a%3D1&since=2026-03-01")
            #expect(page.status == 200 && page.text.contains(#"value="data.a=1""#), "\(page.text)")
            #expect(page.text.contains("took too long") || page.text.contains("Go on from here"))
            #expect(try await console.get("/api/v1/messages?where=data.a%3D1").status == 504)
        }
    }

    @Test("followers are told at once that the database is not read")
    func stale() async throws {
        let parts = try await StreamParts(interval: .milliseconds(5))
        try await parts.feed.start()
        let first = parts.feed.end
        try await parts.database.script("ALTER TABLE upstream.messages RENAME TO gone")
        let driver = Task { try await parts.feed.drive() }
        try await waitUntil("a batch says so") {
            guard case .batch(let batch, _) = parts.feed.look(from: first) else { return false }
            return batch.isStale
        }
        driver.cancel()
        _ = await driver.result
        #expect(FeedBatch.stale.hasPrefix("event: stale\ndata: {\"detail\":"))
    }
}
