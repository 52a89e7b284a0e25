import Foundation
import IntegrationSupport
import Postgres
import Testing

@testable import Replaying

@Suite("Replays: with a database", .serialized, .timeLimit(.minutes(10)))
struct ReplayDatabaseTests {
    // MARK: Steps to handlers

    @Test("a step moves the position and queues the deliveries in one transaction, and names the replay in them")
    func step() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(30)
        try await fixture.plan(fixture.request())
        try await fixture.apply(.start)
        let lease = try await fixture.take(owner: "a")
        let step = try await fixture.step(lease, from: 0, count: 25)
        #expect(step == HandlerFeed.Step(done: 25, skipped: 0))
        let id = try await fixture.replay().id
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries WHERE replay_id = '\(id)'") == 25)
        // With a device for the ordered handler only.
        let marked = "SELECT count(*) FROM upstream.deliveries WHERE (device_key IS NOT NULL) <> (handler = 'audit')"
        #expect(try await fixture.integer(marked) == 0)
        // The same step again, as after a lost reply, changes nothing.
        #expect(try await fixture.step(lease, from: 0, count: 25) == step)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries") == 25)
    }

    @Test("a runner whose lease another has taken changes nothing, wherever it had stopped")
    func fencing() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(30)
        try await fixture.logDeliveries()
        try await fixture.plan(fixture.request())
        try await fixture.apply(.start)
        let old = try await fixture.take(owner: "old")
        _ = try await fixture.step(old, from: 0, count: 10)
        try await fixture.script("UPDATE upstream.replays SET lease_until = now() - interval '1 s'")
        let new = try await fixture.take(owner: "new")
        // The old runner wakes up at the position of the new one, after handlers have finished their deliveries.
        try await fixture.script("DELETE FROM upstream.deliveries")
        #expect(try await fixture.step(old, from: 10, count: 10).ending == .lost)
        #expect(try await fixture.step(new, from: 10, count: 10).done == 20)
        try await fixture.script("DELETE FROM upstream.deliveries")
        #expect(try await fixture.step(old, from: 20, count: 10).ending == .lost)
        let renewed = try await fixture.admin.run { connection throws(PostgresError) in
            try old.renew(connection, .init(done: 30, skipped: 0, bytes: 0))
        }
        #expect(renewed == .lost)
        let hasEnded = try await fixture.admin.run { connection throws(PostgresError) in
            try old.end(connection, error: "no")
        }
        #expect(!hasEnded)
        #expect(try await fixture.replay().done == 20)
        #expect(try await fixture.integer("SELECT count(*) FROM public.queued") == 20)
        let doubled =
            "SELECT count(*) FROM (SELECT FROM public.queued GROUP BY message_key, handler HAVING count(*) > 1) d"
        #expect(try await fixture.integer(doubled) == 0)
    }

    @Test("a dead letter whose day was dropped is planned and queued; once discarded it is skipped")
    func deadMessages() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(3)
        try await fixture.script(
            """
            INSERT INTO upstream.dead_messages SELECT * FROM upstream.messages;
            DELETE FROM upstream.messages WHERE message_id <> 'm-3';
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group)
            SELECT 'audit', message_key, received_at, 1, now(), 1, 'g' FROM upstream.dead_messages
            """
        )
        let plan = try await fixture.plan(fixture.request("r", .handlers(["audit"], .onlyFailed)))
        #expect(plan.planned == 3 && plan.handlers.map(\.dead) == [3] && plan.sample.count == 3)
        try await fixture.apply(.start)
        try await fixture.script(
            "DELETE FROM upstream.dead_letters WHERE message_key IN (SELECT message_key FROM upstream.dead_messages WHERE message_id = 'm-2')"
        )
        let step = try await fixture.step(try await fixture.take(owner: "a"), from: 0, count: 3)
        #expect(step.done == 3 && step.skipped == 1)
        let queued = """
            SELECT message_id FROM upstream.deliveries AS d, upstream.message_of(d.message_key, d.received_at)
            WHERE d.device_key IS NOT NULL ORDER BY 1
            """
        #expect(try await fixture.texts(queued) == ["m-1", "m-3"])
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.dead_letters") == 0)
    }

    @Test("a step that fails moves neither the position nor deliveries")
    func atomicity() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(30)
        try await fixture.plan(fixture.request())
        try await fixture.apply(.start)
        let lease = try await fixture.take(owner: "a")
        try await fixture.script(
            """
            CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'as if killed here'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON upstream.deliveries FOR EACH ROW EXECUTE FUNCTION public.refuse()
            """
        )
        await #expect(throws: PostgresError.self) { try await fixture.step(lease, from: 0, count: 10) }
        #expect(try await fixture.replay().done == 0)
        try await fixture.script("DROP TRIGGER refuse ON upstream.deliveries")
        #expect(try await fixture.step(lease, from: 0, count: 10).done == 10)
    }

    @Test("dead letters are queued again, pending deliveries stay as they are, deleted messages are skipped")
    func conflicts() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(30)
        try await fixture.plan(fixture.request("r", .handlers(["audit"], .all)))
        try await fixture.script(
            """
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group
            ) SELECT 'audit', message_key, received_at, 3, now(), 1, 'g' FROM upstream.messages ORDER BY received_at LIMIT 4;
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, attempts)
            SELECT 'audit', message_key, received_at, now(), 2 FROM upstream.messages ORDER BY received_at DESC LIMIT 5;
            DELETE FROM upstream.messages WHERE message_id IN ('m-10', 'm-11');
            """
        )
        try await fixture.apply(.start)
        #expect(try await fixture.runner().run(fixture.replay()) == .finished)
        let replay = try await fixture.replay()
        #expect(replay.done == 30 && replay.skipped == 7)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.dead_letters") == 0)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries") == 28)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries WHERE replay_id IS NULL") == 5)
    }

    @Test("a replay of failed deliveries skips a dead letter that was retried since")
    func onlyFailed() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(10)
        try await fixture.script(
            """
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group
            ) SELECT 'audit', message_key, received_at, 3, now(), 1, 'g' FROM upstream.messages
            """
        )
        try await fixture.plan(fixture.request("r", .handlers(["audit"], .onlyFailed)))
        try await fixture.script(
            "DELETE FROM upstream.dead_letters WHERE message_key IN (SELECT message_key FROM upstream.messages LIMIT 4)"
        )
        try await fixture.apply(.start)
        #expect(try await fixture.runner().run(fixture.replay()) == .finished)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries") == 6)
        #expect(try await fixture.replay().skipped == 4)
    }

    // MARK: Runs

    @Test("a finished replay sends nothing again unless told to, and then everything")
    func again() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(1_200)
        try await fixture.plan(fixture.request())
        try await fixture.apply(.start)
        #expect(try await fixture.runner().run(fixture.replay()) == .finished)
        try await fixture.script("DELETE FROM upstream.deliveries")
        #expect(try await fixture.apply(.start).state == .finished)
        #expect(try await fixture.runner().run(fixture.replay()) == .stopped(.finished))
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries") == 0)
        try await fixture.apply(.startAgain)
        #expect(try await fixture.runner().run(fixture.replay()) == .finished)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries") == 1_600)
        let events = try await fixture.texts("SELECT event FROM upstream.replay_events ORDER BY at")
        #expect(events == ["planned", "started", "taken", "finished", "restarted", "taken", "finished"])
    }

    @Test("three runners that keep losing the lease to each other queue every delivery exactly once")
    func rivals() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(3_000)
        try await fixture.logDeliveries()
        try await fixture.plan(fixture.request("r", .handlers([], .all)) { $0.pace.concurrency = 60 })
        try await fixture.apply(.start)
        let replay = try await fixture.replay()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for owner in ["a", "b", "c"] {
                let runner = fixture.runner(owner, lease: .milliseconds(200))
                group.addTask {
                    while true {
                        let ending = try await runner.run(replay)
                        if ending == .finished || ending == .stopped(.finished) { return }
                        try await waitUntil {
                            let replay = try await fixture.replay()
                            return !replay.isHeld || replay.state != .running
                        }
                    }
                }
            }
            // Handlers that are quick, and a thief of leases.
            group.addTask {
                var round = 0
                var done: Int64 = 0
                while true {
                    // A step later, at the earliest.
                    try await waitUntil {
                        let replay = try await fixture.replay()
                        defer { done = replay.done }
                        return replay.done > done || replay.state != .running
                    }
                    guard try await fixture.replay().state == .running else { return }
                    round += 1
                    try await fixture.script("DELETE FROM upstream.deliveries")
                    // An expired lease, which its holder may renew first; and one that is lost whoever is first.
                    if round % 4 == 0 {
                        try await fixture.script(
                            """
                            UPDATE upstream.replays
                            SET lease_until = now() - interval '1 s', lease_token = lease_token + \(round % 8 == 0 ? 1 : 0)
                            WHERE lease_until IS NOT NULL
                            """
                        )
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await fixture.integer("SELECT count(*) FROM public.queued") == 4_000)
        #expect(try await fixture.integer("SELECT count(DISTINCT (message_key, handler)) FROM public.queued") == 4_000)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.replay_events WHERE event = 'taken'") > 5)
    }

    @Test("never more deliveries are pending than the concurrency allows")
    func backPressure() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(500)
        try await fixture.plan(fixture.request("r", .handlers(["audit"], .all)) { $0.pace.concurrency = 40 })
        try await fixture.apply(.start)
        let replay = try await fixture.replay()
        let runner = fixture.runner()
        async let ending = runner.run(replay)
        var most = 0
        while try await fixture.replay().state == .running {
            most = max(most, try await fixture.integer("SELECT count(*) FROM upstream.deliveries"))
            try await fixture.script(
                "DELETE FROM upstream.deliveries WHERE ctid IN (SELECT ctid FROM upstream.deliveries LIMIT 25)"
            )
        }
        #expect(try await ending == .finished)
        #expect(most <= 40 && most > 0)
    }

    @Test("pause stops a run, resume continues it where it was, cancel ends it")
    func pauses() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(1_000)
        try await fixture.plan(fixture.request("r", .handlers(["audit"], .all)) { $0.pace.rate = 200 })
        try await fixture.apply(.start)
        async let first = fixture.runner().run(fixture.replay())
        try await waitUntil { try await fixture.replay().done >= 20 }
        try await fixture.apply(.pause)
        #expect(try await first == .stopped(.paused))
        let paused = try await fixture.replay()
        #expect(paused.owner == nil && paused.done < 1_000)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries") == Int(paused.done))
        try await fixture.apply(.resume)
        async let second = fixture.runner("b").run(fixture.replay())
        try await waitUntil { try await fixture.replay().done > paused.done }
        try await fixture.apply(.cancel)
        #expect(try await second == .stopped(.cancelled))
        let cancelled = try await fixture.replay()
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries") == Int(cancelled.done))
        #expect(cancelled.state == .cancelled && cancelled.owner == nil)
    }

    // MARK: Files

    @Test("a file holds each message once, whatever a killed run left in it")
    func file() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(2_000)
        let path = "/tmp/upstream-replay-\(UInt64.random(in: 0...UInt64.max)).ndjson"
        defer { for name in [path, path + ".partial"] { try? FileManager.default.removeItem(atPath: name) } }
        try await fixture.plan(
            fixture.request("r", .other(.output(path: path, format: .ndjson))) { $0.pace.rate = 3_000 }
        )
        try await fixture.apply(.start)
        let replay = try await fixture.replay()
        // A run that stops and, as after a kill, leaves more in the file than it has stored in the database.
        let task = Task { try await fixture.runner(lease: .milliseconds(50)).run(replay) }
        try await waitUntil { try await fixture.replay().done >= 300 }
        task.cancel()
        _ = try await task.value
        let position = try await fixture.replay()
        #expect(position.done > 0 && position.done < 2_000 && position.bytes > 0)
        let handle = try #require(FileHandle(forWritingAtPath: path + ".partial"))
        try handle.seekToEnd()
        try handle.write(contentsOf: Data(#"{"message_key":"half of a li"#.utf8))
        try handle.close()
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(try await fixture.runner("b").run(replay) == .finished)
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        #expect(lines.count == 2_000 && Set(lines).count == 2_000)
        let keys = try await fixture.texts("SELECT message_key::text FROM upstream.messages ORDER BY received_at")
        #expect(lines.map { String($0.dropFirst(16).prefix(36)) } == keys)
        // Another replay does not overwrite an existing file.
        try await fixture.plan(fixture.request("s", .other(.output(path: path, format: .ndjson))))
        try await fixture.apply(.start, "s")
        guard case .failed = try await fixture.runner().run(fixture.replay("s")) else {
            Issue.record("the file was overwritten")
            return
        }
    }

    // MARK: Import

    @Test("an export is stored once in another database, however often it is imported")
    func importing() async throws {
        let source = try await ReplayFixture()
        try await source.seed(1_500)
        let path = "/tmp/upstream-replay-\(UInt64.random(in: 0...UInt64.max)).ndjson"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try await source.plan(source.request("r", .other(.output(path: path, format: .ndjson))))
        try await source.apply(.start)
        #expect(try await source.runner().run(source.replay()) == .finished)

        let target = try await ReplayFixture()
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let year = text.prefix(4_000).firstRange(of: #""received_at":"2"#)
        #expect(year != nil)
        func load(
            _ text: String,
            isDelivered: Bool = false,
            isDryRun: Bool = false
        ) async throws -> (ReplayImporter.Report, [ImportProblem]) {
            let file = "/tmp/upstream-replay-\(UInt64.random(in: 0...UInt64.max)).in"
            try text.write(toFile: file, atomically: true, encoding: .utf8)
            defer { try? FileManager.default.removeItem(atPath: file) }
            let handle = try #require(FileHandle(forReadingAtPath: file))
            var problems: [ImportProblem] = []
            let importer = ReplayImporter(
                target.settings,
                isDelivered: isDelivered,
                isStrict: false,
                isDryRun: isDryRun
            )
            let report = try await importer.run(from: handle.fileDescriptor, onProblem: { problems.append($0) })
            return (report, problems)
        }
        let dry = try await load(text, isDryRun: true).0
        #expect(dry.stored == 1_500 && dry.duplicates == 0)
        #expect(try await target.integer("SELECT count(*) FROM upstream.message_ids") == 0)
        let first = try await load(text).0
        #expect(first.stored == 1_500 && first.duplicates == 0 && first.refused == 0)
        #expect(try await target.integer("SELECT count(*) FROM upstream.deliveries") == 0)
        let second = try await load(text).0
        #expect(second.stored == 0 && second.duplicates == 1_500)
        let columns =
            "message_key, sender_id, message_id, registration_token, device_key, category, data::text, received_at"
        let dump =
            "SELECT md5(string_agg(t::text, '|' ORDER BY received_at)) FROM (SELECT \(columns) FROM upstream.messages) t"
        #expect(try await source.texts(dump) == target.texts(dump))
        // Other content for a known id, a bad line, and an old day.
        let changed = text.split(separator: "\n")[0]
            .replacing(#/"data":{"n":\d+}/#, with: #""data":{"n":-1}"#).replacing(#/,"fingerprint":"[^"]*"/#, with: "")
        let old =
            #"{"sender_id":"9","message_id":"o","registration_token":"t","category":"com.example.orders","#
            + #""received_at":"2020-02-29T23:59:59Z","data":{}}"#
        let lines = "\(changed)\nnot json\n\(old)\n\(old)\n\(text.split(separator: "\n")[1])\n"
        let compared = try await load(lines, isDryRun: true).0
        #expect(compared.conflicts == 1 && compared.refused == 1 && compared.stored == 1 && compared.duplicates == 2)
        let (third, problems) = try await load("\(changed)\nnot json\n\(old)\n", isDelivered: true)
        #expect(third.conflicts == 1 && third.refused == 1 && third.stored == 1)
        #expect(problems.map(\.line) == [2])
        #expect(try await target.integer("SELECT count(*) FROM upstream.messages_20200229") == 1)
        #expect(try await target.integer("SELECT count(*) FROM upstream.deliveries") == 2)
        let again = try await load("\(changed)\n").0
        #expect(again.conflicts == 1)
        #expect(try await target.integer("SELECT sum(times_seen) FROM upstream.conflicts") == 1)
    }
}
