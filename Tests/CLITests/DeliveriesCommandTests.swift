import Foundation
import QuerySupport
import Testing
import Vocabulary

@Suite("deliveries that wait: listed, made due, given up", .timeLimit(.minutes(4)))
struct DeliveriesCommandTests {
    /// Messages m0, m1, … of two categories with deliveries to `billing`: m0 is leased, all others wait for a retry that failed
    /// with status 503, of which the history knows; m9 failed with a time-out.
    private func stage(_ count: Int = 10) async throws -> CommandStage {
        let stage = try await CommandStage(
            (0..<count).map {
                Seed(id: "m\($0)", category: $0 % 2 == 0 ? "com.example.even" : "com.example.odd", at: Int64($0))
            }
        )
        try await stage.fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('billing'), ('orders');
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, attempts, next_attempt_at, last_error, lease_owner, lease_until)
            SELECT 'billing', message_key, received_at, 2, now() + interval '1 hour',
                CASE message_id WHEN 'm9' THEN 'the handler took too long' ELSE 'status 503 Service Unavailable' END,
                CASE message_id WHEN 'm0' THEN 'host:1' END,
                CASE message_id WHEN 'm0' THEN now() + interval '1 minute' END
            FROM upstream.messages;
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, numbers,
                error_groups)
            SELECT now(), 'billing', 'host:1', 'retry', min(received_at), max(received_at),
                array_agg(message_key ORDER BY received_at), array_agg(1::real), array_agg(1::real), array_agg(2),
                array_agg(CASE message_id WHEN 'm9' THEN 'timeout' ELSE 'webhook status 503' END ORDER BY received_at)
            FROM upstream.messages;
            """
        )
        return stage
    }

    private func count(_ condition: String, _ stage: CommandStage) async throws -> String? {
        try await stage.fixture.text("SELECT count(*)::text FROM upstream.\(condition)")
    }

    private func audit(_ stage: CommandStage) async throws -> String? {
        try await stage.fixture.text(
            "SELECT string_agg(concat_ws('|', action, subject, count, reason), ' ' ORDER BY id) FROM upstream.audit"
        )
    }

    @Test("the list says why each waits, until when, and what failed; and says so where nothing waits")
    func list() async throws {
        let stage = try await stage()
        let table = try await stage.run(["deliveries", "list"], columns: 200)
        #expect(table.status == 0 && table.output.contains("webhook status 503"), "\(table.output)\(table.errors)")
        #expect(table.output.contains("leased") && table.output.contains("retry"))
        let run = try await stage.run(["deliveries", "list", "--group", "timeout", "--json"])
        let rows = try #require(try JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [NSDictionary])
        #expect(rows.count == 1 && rows[0]["reason"] as? String == "retry" && rows[0]["attempts"] as? Int == 2)
        #expect(rows[0]["error"] as? String == "the handler took too long")
        #expect(rows[0]["message_key"] as? String == (try await stage.key("m9")))
        let odd = try await stage.run(["deliveries", "list", "--category", "com.example.odd", "--limit", "2"])
        #expect(odd.errors.contains("more: --after '"), "\(odd.errors)")
        let cursor = try #require(odd.errors.split(separator: "'").dropFirst().first)
        let rest = try await stage.run(
            ["deliveries", "list", "--category", "com.example.odd", "--after", String(cursor), "--json"]
        )
        #expect(rest.output.components(separatedBy: "com.example.odd").count == 4, "\(rest.output)")
        let none = try await stage.run(["deliveries", "list", "--handler", "orders"])
        #expect(none.status == 0 && none.output.isEmpty && none.errors == "no deliveries match\n")
        let late = try await stage.run(["deliveries", "list", "--since", "1h"])
        #expect(late.output.isEmpty, "since is by the message's time: \(late.output)")
    }

    @Test(
        "a handler that nobody knows is an error, with the name that was meant",
        arguments: [
            ["deliveries", "list"], ["deliveries", "retry-now"], ["deliveries", "cancel"], ["dead", "retry"],
            ["dead", "retry", "--dry-run"], ["dead", "discard", "--yes"],
        ]
    )
    func unknownHandler(_ command: [String]) async throws {
        let run = try await stage().run(command + ["--handler", "biling"])
        #expect(run.status == 1 && run.output.isEmpty, "\(run.output)\(run.errors)")
        #expect(run.errors.contains("no handler 'biling' is registered: did you mean 'billing'?"), "\(run.errors)")
    }

    @Test("handlers list says of each count whether it stopped at its limit, and there may be more")
    func countsAtLimit() async throws {
        let stage = try await stage(2)
        try await stage.fixture.script(
            """
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT 'billing', gen_random_uuid(), now(), now() FROM generate_series(1, 99998);
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group)
            SELECT 'orders', gen_random_uuid(), now(), 1, now(), 0, 'no', 'no' FROM generate_series(1, 99999);
            """
        )
        struct Counts: Decodable, Equatable {
            var handler: String
            var waiting: Int
            var dead_letters: Int
            /// A count that is this is a lower bound.
            var counted_to = 100_000
        }
        func counts() async throws -> [Counts] {
            let run = try await stage.run(["handlers", "list", "--json"])
            return try JSONDecoder().decode([Counts].self, from: Data(run.output.utf8))
        }
        #expect(
            try await counts() == [
                Counts(handler: "billing", waiting: 100_000, dead_letters: 0),
                Counts(handler: "orders", waiting: 0, dead_letters: 99_999),
            ]
        )
        try await stage.fixture.script(
            """
            INSERT INTO upstream.dead_letters SELECT 'billing', message_key, received_at, attempts, next_attempt_at, NULL,
                0, NULL, 'no', NULL, 0, NULL, 'no'
            FROM upstream.deliveries LIMIT 2;
            DELETE FROM upstream.deliveries WHERE attempts > 0;
            UPDATE upstream.dead_letters SET handler = 'orders' WHERE handler = 'billing'
            """
        )
        #expect(
            try await counts() == [
                Counts(handler: "billing", waiting: 99_998, dead_letters: 0),
                Counts(handler: "orders", waiting: 0, dead_letters: 100_000),
            ]
        )
        let table = try await stage.run(["handlers", "list"], columns: 200)
        #expect(table.output.contains(" 99998 ") && table.output.contains(" 100000+ "), "\(table.output)")
    }

    @Test("retry-now makes due what no worker holds, and records who, what and why")
    func retryNow() async throws {
        let stage = try await stage()
        let plan = try await stage.run(["deliveries", "retry-now", "--all", "--dry-run"])
        #expect(plan.errors.hasPrefix("would have made due 9; workers have 1 more in hand"), "\(plan.errors)")
        #expect(try await count("deliveries WHERE next_attempt_at <= now()", stage) == "0")
        let run = try await stage.run(
            ["deliveries", "retry-now", "--group", "webhook status 503", "--reason", "fixed", "--json"]
        )
        #expect(run.status == 0 && run.output.contains(#""done":8"#), "\(run.output)\(run.errors)")
        #expect(try await count("deliveries WHERE next_attempt_at <= now()", stage) == "8")
        #expect(try await count("deliveries WHERE lease_owner IS NOT NULL AND next_attempt_at > now()", stage) == "1")
        #expect(
            try await audit(stage) == "deliveries.retry-now|deliveries, group 'webhook status 503'|8|fixed"
        )
    }

    @Test("cancelled deliveries are dead letters with who and why, and dead retry brings them back")
    func cancel() async throws {
        let stage = try await stage()
        let run = try await stage.run(["deliveries", "cancel", "--handler", "billing", "--reason", "moved away"])
        #expect(run.status == 0 && run.errors.hasPrefix("cancelled 9; workers have 1 more in hand"), "\(run.errors)")
        #expect(try await count("deliveries", stage) == "1")
        #expect(try await count("deliveries WHERE lease_owner = 'host:1'", stage) == "1", "the one that a worker holds")
        #expect(
            try await count(
                "dead_letters WHERE error_group = 'cancelled by operator' AND attempts = 2 "
                    + "AND last_error LIKE 'cancelled by %: moved away; the latest attempt: %'",
                stage
            ) == "9"
        )
        #expect(try await audit(stage)?.hasPrefix("deliveries.cancel|deliveries, handler billing, until ") == true)
        let back = try await stage.run(["dead", "retry", "--group", "cancelled by operator"])
        #expect(back.errors == "retried 9\n")
        #expect(try await count("deliveries", stage) == "10")
    }

    @Test("a batch that comes out short does not end it, and what was left is said")
    func shortBatches() async throws {
        let stage = try await stage()
        // Every second deletion does not happen, as where another session has the row locked just then.
        try await stage.fixture.script(
            """
            CREATE SEQUENCE public.tries;
            CREATE FUNCTION public.skip() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN IF nextval(''public.tries'') % 2 = 0 THEN RETURN NULL; END IF; RETURN old; END';
            CREATE TRIGGER skip BEFORE DELETE ON upstream.deliveries FOR EACH ROW EXECUTE FUNCTION public.skip();
            """
        )
        let run = try await stage.run(["deliveries", "cancel", "--all"])
        // Of nine five, of four two, of two one, of one none.
        #expect(run.status == 0 && run.errors.hasPrefix("cancelled 8 of 9; workers have 1 more"), "\(run.errors)")
        #expect(try await count("dead_letters", stage) == "8")
        #expect(try await count("deliveries", stage) == "2")
    }

    @Test(
        "more than a hundred are asked about, and 100 are not",
        arguments: [
            ["deliveries", "retry-now", "--all"], ["deliveries", "cancel", "--all"], ["dead", "retry", "--all"],
        ]
    )
    func asksAboutMany(_ command: [String]) async throws {
        for (size, isAsked) in [(101, false), (102, true)] {
            let stage = try await stage(size)
            if command[0] == "dead" {
                try await stage.fixture.script(
                    """
                    INSERT INTO upstream.dead_letters (
                        handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group)
                    SELECT 'billing', message_key, received_at, 1, now(), 0, 'g' FROM upstream.messages
                    WHERE message_id <> 'm0';
                    """
                )
            }
            let piped = try await stage.run(command)
            #expect(piped.status == (isAsked ? 64 : 0), "\(piped.errors)")
            #expect(piped.errors.contains("--yes") == isAsked)
            guard isAsked else { continue }
            let refused = try await stage.run(command, columns: 80, input: "n\n")
            #expect(refused.status == 1 && refused.errors.contains("101"), "\(refused.errors)")
            #expect(try await audit(stage) == nil)
            #expect(try await stage.run(command + ["--yes"]).status == 0)
            #expect(try await audit(stage)?.contains("|101") == true)
        }
    }

    @Test("a rate spreads what is retried over time, in order of arrival; more than 7 days are refused")
    func rate() async throws {
        let stage = try await stage(1)
        // More than one batch.
        try await stage.fixture.script(
            """
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group)
            SELECT 'orders', gen_random_uuid(), now() - n * interval '1 second', 1, now(), 0, 'g'
            FROM generate_series(1, 1500) AS n;
            """
        )
        let retry = ["dead", "retry", "--handler", "orders", "--reason", "slowly", "--yes", "--rate"]
        for (rate, words) in [
            ("0.001", "after more than 7 days"), ("0", "for example 10/s"), ("x", "for example 10/s"),
        ] {
            let refused = try await stage.run(retry + [rate])
            #expect(refused.status == 64 && refused.errors.contains(words), "\(rate): \(refused.errors)")
        }
        #expect(try await count("dead_letters", stage) == "1500")
        let run = try await stage.run(retry + ["10/s"])
        #expect(run.errors == "retried 1500; the last is due in \(Amount.time(150))\n", "\(run.errors)")
        let spread = try await stage.fixture.text(
            """
            SELECT concat_ws(' ', count(*), min(gap) >= '90 ms', max(due) - min(due) BETWEEN '149 s' AND '160 s') FROM (
                SELECT next_attempt_at AS due, next_attempt_at - lag(next_attempt_at) OVER (ORDER BY received_at) AS gap
                FROM upstream.deliveries WHERE handler = 'orders'
            ) AS queued
            """
        )
        #expect(spread == "1500 t t")
        #expect(try await audit(stage)?.contains(", 10 per second|1500|slowly") == true)
    }

    @Test("dead retry --dry-run counts by error group and changes nothing")
    func dryRun() async throws {
        let stage = try await stage()
        _ = try await stage.run(["deliveries", "cancel", "--all", "--yes"])
        let run = try await stage.run(["dead", "retry", "--handler", "billing", "--dry-run"])
        #expect(run.status == 0 && run.errors == "would retry 9; nothing was changed\n", "\(run.errors)")
        #expect(run.output.contains("cancelled by operator") && run.lines[1].hasPrefix("9 "), "\(run.output)")
        #expect(try await count("dead_letters", stage) == "9")
        let none = try await stage.run(["dead", "retry", "--handler", "orders", "--dry-run"])
        #expect(none.output.isEmpty && none.errors == "would retry 0; nothing was changed\n")
    }

    @Test("handlers list shows a handler whose circuit is open as failing, with its next probe")
    func nextProbe() async throws {
        let stage = try await stage()
        let none = try await stage.run(["handlers", "list", "--table"])
        #expect(none.output.contains("active") && !none.output.contains("failing"), "\(none.output)")
        try await stage.fixture.script(
            """
            INSERT INTO upstream.workers
            SELECT gen_random_uuid(), 'host:' || n, '1', '{dispatch}', now(), now() - '5 s'::interval * n, false, 0, '[]', '{}',
                jsonb_build_array(jsonb_build_object(
                    'handler', 'billing', 'circuit', CASE n WHEN 1 THEN 'open' ELSE 'closed' END,
                    'next_probe', CASE n WHEN 1 THEN 30 END, 'paused', false, 'running', 0, 'waiting', 0, 'attempts', 0,
                    'failed', 0))
            FROM generate_series(1, 2) AS n
            """
        )
        let run = try await stage.run(["handlers", "list", "--table"])
        let line = try #require(run.lines.first { $0.hasPrefix("billing") })
        #expect(line.contains(/failing, next probe in 2[2-5] s/), "\(run.output)")
        #expect(run.lines.first { $0.hasPrefix("orders") }?.contains("active") == true)
        let json = try await stage.run(["handlers", "list", "--json"])
        #expect(json.output.contains(#""circuit":"open""#) && !json.output.contains("failing"), "\(json.output)")
        #expect(json.output.contains(#""next_probe_at":"2"#), "\(json.output)")
        // Its time is over by now.
        try await stage.fixture.script(
            "UPDATE upstream.workers SET handlers = jsonb_set(handlers, '{0,next_probe}', '1') WHERE worker = 'host:1'"
        )
        let over = try await stage.run(["handlers", "list", "--table"])
        #expect(over.output.contains("failing, a probe is due or under way"), "\(over.output)")
        #expect(try await !stage.run(["handlers", "list", "--json"]).output.contains(#""next_probe_at":"2"#))
        // Neither a dead worker's circuit shows, nor what it told the others.
        try await stage.fixture.script(
            """
            UPDATE upstream.workers SET heartbeat_at = now() - interval '10 minutes' WHERE worker = 'host:1';
            UPDATE upstream.handlers SET circuit_open = true, circuit_changed_at = now()
            """
        )
        let later = try await stage.run(["handlers", "list", "--table"])
        #expect(!later.output.contains("failing"), "\(later.output)")
    }
}
