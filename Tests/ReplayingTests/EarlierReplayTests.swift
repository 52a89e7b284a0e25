import Querying
import Testing

@testable import Replaying

/// What an earlier replay has sent is not sent again unless somebody says so.
extension ReplayDatabaseTests {
    /// A replay of everything, of which the first so many deliveries were sent and handled.
    private func replayed(
        _ messages: Int,
        sent: Int64,
        _ target: ReplayRequest.Target = .handlers(["audit"], .all)
    ) async throws -> ReplayFixture {
        let fixture = try await ReplayFixture()
        try await fixture.seed(messages)
        try await fixture.plan(fixture.request("first", target))
        try await fixture.apply(.start, "first")
        let lease = try await fixture.take("first", owner: "a")
        for start in stride(from: Int64(0), to: sent, by: 1_000) {
            _ = try await fixture.step(lease, from: start, count: min(1_000, sent - start))
        }
        try await fixture.script("DELETE FROM upstream.deliveries")
        return fixture
    }

    @Test("a plan counts what an earlier replay has sent, leaves it out, and includes it where that is asked for")
    func earlier() async throws {
        let fixture = try await replayed(30, sent: 20)
        let plan = try await fixture.plan(fixture.request("second", .handlers(["audit"], .all)))
        #expect(plan.selected == 30 && plan.planned == 10 && plan.replayed == 20)
        #expect(plan.earlier == [ReplayPlan.Earlier(replay: "first", count: 20)])
        #expect(plan.handlers.map(\.replayed) == [20] && plan.handlers.map(\.handled) == [30])
        let frozen = """
            SELECT sum(cardinality(m.message_key)) FROM upstream.replay_messages AS m JOIN upstream.replays USING (replay_id)
            WHERE name = 'second'
            """
        #expect(try await fixture.integer(frozen) == 10)
        let again = try await fixture.plan(
            fixture.request("again", .handlers(["audit"], .all)) { $0.includesReplayed = true }
        )
        #expect(again.planned == 30 && again.replayed == 20 && again.includesReplayed)
        // What was not asked for anyway was not left out for this reason.
        let failed = try await fixture.plan(fixture.request("failed", .handlers(["audit"], .onlyFailed)))
        #expect(failed.planned == 0 && failed.replayed == 0)
    }

    @Test("messages from before a handler are sent to it by one replay, not by each; another handler gets them too")
    func beforeHandler() async throws {
        let fixture = try await replayed(30, sent: 40, .handlers([], .all))
        // 30 deliveries to audit and 10 to orders, which was registered after all of them.
        let plan = try await fixture.plan(fixture.request("second", .handlers(["orders"], .notHandled)))
        #expect(plan.handlers.map(\.new) == [30] && plan.replayed == 10 && plan.planned == 20)
        let both = try await fixture.plan(fixture.request("both", .handlers([], .all)))
        #expect(both.planned == 0 && both.replayed == 40 && both.handlers.map(\.replayed) == [30, 10])
    }

    @Test("a message that died again is a dead letter like any other, and one that waits is left alone")
    func diedAgain() async throws {
        let fixture = try await replayed(30, sent: 30)
        try await fixture.script(
            """
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group
            ) SELECT 'audit', message_key, received_at, 3, now(), 1, 'g' FROM upstream.messages ORDER BY received_at LIMIT 4;
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT 'audit', message_key, received_at, now() FROM upstream.messages ORDER BY received_at DESC LIMIT 5
            """
        )
        let plan = try await fixture.plan(fixture.request("second", .handlers(["audit"], .all)))
        #expect(plan.planned == 4 && plan.replayed == 21)
        let failed = try await fixture.plan(fixture.request("failed", .handlers(["audit"], .onlyFailed)))
        #expect(failed.planned == 4 && failed.replayed == 0)
    }

    @Test("of a replay of dead letters that passed over some it is not known what it has sent: nothing is left out")
    func passedOver() async throws {
        let fixture = try await replayed(30, sent: 20)
        try await fixture.script("UPDATE upstream.replays SET only_failed = true WHERE name = 'first'")
        let known = try await fixture.plan(fixture.request("second", .handlers(["audit"], .all)), isDryRun: true)
        #expect(known.planned == 10 && known.replayed == 20)
        try await fixture.script("UPDATE upstream.replays SET skipped = 1 WHERE name = 'first'")
        let plan = try await fixture.plan(fixture.request("second", .handlers(["audit"], .all)))
        #expect(plan.planned == 30 && plan.replayed == 0 && plan.earlier.isEmpty)
    }

    @Test("a replay of days that are gone is not looked at; one of messages that dead letters keep is")
    func goneDays() async throws {
        let fixture = try await replayed(30, sent: 20)
        func isKnown() async throws -> Bool {
            let request = fixture.request("second", .handlers(["audit"], .all))
            return try await fixture.plan(request, isDryRun: true).replayed == 20
        }
        #expect(try await isKnown())
        try await fixture.script("UPDATE upstream.replays SET last_received_at = now() - interval '40 days'")
        #expect(try await !isKnown())
        try await fixture.script(
            """
            INSERT INTO upstream.dead_messages SELECT * FROM upstream.messages LIMIT 1;
            UPDATE upstream.dead_messages SET received_at = now() - interval '50 days'
            """
        )
        #expect(try await isKnown())
    }

    @Test("a handler that was removed and registered again has had nothing")
    func registeredAgain() async throws {
        let fixture = try await replayed(30, sent: 30)
        try await fixture.script("UPDATE upstream.handlers SET registered_at = clock_timestamp() WHERE name = 'audit'")
        let plan = try await fixture.plan(fixture.request("second", .handlers(["audit"], .notHandled)))
        #expect(plan.planned == 30 && plan.replayed == 0 && plan.earlier.isEmpty)
    }

    @Test("of a replay that was cancelled, what it has sent is known, and the rest of its selection is deleted")
    func cancelled() async throws {
        let fixture = try await replayed(2_500, sent: 1_200)
        try await fixture.apply(.cancel, "first")
        #expect(try await fixture.integer("SELECT max(chunk) FROM upstream.replay_messages") == 1)
        let plan = try await fixture.plan(fixture.request("second", .handlers(["audit"], .all)))
        #expect(plan.planned == 1_300 && plan.replayed == 1_200)
    }

    @Test("the latest of several replays is named, and times outside the filter are not looked at")
    func several() async throws {
        let fixture = try await replayed(100, sent: 60)
        try await fixture.apply(.cancel, "first")
        let again = fixture.request("again", .handlers(["audit"], .all)) { $0.includesReplayed = true }
        try await fixture.plan(again)
        try await fixture.apply(.start, "again")
        let lease = try await fixture.take("again", owner: "a")
        _ = try await fixture.step(lease, from: 0, count: 10)
        try await fixture.script("DELETE FROM upstream.deliveries")
        let plan = try await fixture.plan(fixture.request("third", .handlers(["audit"], .all)))
        #expect(plan.earlier.map(\.replay) == ["first", "again"] && plan.earlier.map(\.count) == [50, 10])
        let cut = try #require(plan.span?.lowerBound)
        // The plan holds the latest 40; older ones were replayed.
        let late = fixture.request("late", .handlers(["audit"], .all)) { $0.filter.since = cut }
        let rest = try await fixture.plan(late, isDryRun: true)
        #expect(rest.selected == 40 && rest.planned == 40 && rest.replayed == 0)
    }

    @Test("an endpoint gets what it has not acked yet; a file gets everything each time")
    func otherTargets() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(10)
        let endpoint = ReplayTarget.endpoint(host: "staging", port: 5235, account: "1@fcm")
        let file = ReplayTarget.output(path: "/tmp/x", format: .ndjson)
        for (name, target) in [("e", endpoint), ("f", file)] {
            try await fixture.plan(fixture.request(name, .other(target)))
        }
        try await fixture.script(
            "UPDATE upstream.replays SET state = 'finished', started_at = now(), finished_at = now(), done = 7"
        )
        let again = try await fixture.plan(fixture.request("e2", .other(endpoint)))
        #expect(again.planned == 3 && again.replayed == 7 && again.selected == 10)
        let elsewhere = ReplayTarget.endpoint(host: "staging", port: 5235, account: "2@fcm")
        #expect(try await fixture.plan(fixture.request("e3", .other(elsewhere))).planned == 10)
        let whole = try await fixture.plan(fixture.request("f2", .other(file)))
        #expect(whole.planned == 10 && whole.replayed == 0)
    }
}
